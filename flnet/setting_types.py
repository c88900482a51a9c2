"""The forms of values that settings have: lists, folders, parts of a data set, tokens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from flnet.names import check_host

NUMBER = re.compile(r"[0-9]{1,9}")
_PARTITION = re.compile(r"(iid|groups|(dirichlet|pathological|quantity|power):[0-9]{1,9}([.][0-9]{1,9})?)")

_NUMBER = "[0-9]{1,9}([.][0-9]{1,9})?"
_ABOVE_0 = f"(?=[0-9.]*[1-9]){_NUMBER}"
_BELOW_1 = "0([.][0-9]{1,9})?"
_PART = "(0([.][0-9]{1,9})?|1)"
_COUNT = "[1-9][0-9]{0,2}"
MERGING_RULES = (
    "agg0, agg1, agg2, median, trimmed-mean:0.2, winsorised-mean:0.2, geometric-median, krum:1, multi-krum:1, "
    "multi-krum:1:3, bulyan:1, k-means:1, consistency, consistency:bounded, scaffold, fedavgm:1:0.9, fedadam:0.01 "
    "or fedyogi:0.01, after clip, clip:2.5 or cosine, with commas between"
)
_MERGING_RULE = re.compile(
    r"agg[012]|median|geometric-median|(trimmed|winsorised)-mean(:0[.][0-4][0-9]{0,8})?|(krum|bulyan)(:[0-9]{1,3})?"
    rf"|multi-krum(:[0-9]{{1,3}}(:{_COUNT})?)?"
    r"|k-means(:(1|(?=[0-9.]*[1-9])0[.][0-9]{1,9}))?"
    rf"|scaffold(:{_ABOVE_0}(:examples)?)?|fedavgm(:{_ABOVE_0}(:{_BELOW_1})?)?"
    rf"|(fedadam|fedyogi)(:{_ABOVE_0}(:{_BELOW_1}(:{_BELOW_1}(:{_ABOVE_0})?)?)?)?"
    rf"|consistency(:(mad|rows|bounded|raw|shares|ratio))?(:{_COUNT}(:{_PART})?)?"
)
_FILTER = re.compile(f"clip(:{_ABOVE_0})?|cosine")
_MOST_FILTERS = 8
_LOCAL_TRAINING = re.compile(f"plain|proximal(:{_NUMBER})?")
_PERSONAL_MODEL = re.compile(
    rf"none|apfl(:{_PART}(:{_NUMBER}(:(sgd|momentum|adam))?)?)?|increment(:[1-9][0-9]{{0,3}})?"
)


def split_list(value: Any) -> Any:
    """Lists come as "a,b" from variables and options, as arrays from TOML."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _in_form(text: str, form: re.Pattern[str], expected: str) -> str:
    if not form.fullmatch(text.strip()):
        raise ValueError(expected)
    return text.strip()


def check_local_training(text: str) -> str:
    """The text, stripped; the form only: flnet.training.method knows the rest.

    Raises:
        ValueError: there is no such training.
    """
    return _in_form(text, _LOCAL_TRAINING, "expected plain, proximal or proximal:0.01")


def check_personal_model(text: str) -> str:
    """The text, stripped; the form only: flnet.training.method knows the rest.

    Raises:
        ValueError: there is no such model.
    """
    return _in_form(
        text, _PERSONAL_MODEL, "expected none, apfl, apfl:0.5:0.01, apfl:0.5:0.01:adam, increment or increment:5"
    )


def check_partition(text: str) -> str:
    """The text, stripped; the form only: flnet.training.partition knows the rest.

    Raises:
        ValueError: it has no form that there is.
    """
    return _in_form(
        text, _PARTITION, "expected iid, groups, dirichlet:0.3, pathological:2, quantity:0.5 or power:1"
    )


def check_merging_rule(text: str) -> str:
    """Filters and a rule with commas between, without spaces; the form only: flnet.node.merging knows the rest.

    Raises:
        ValueError: there is no such rule or filter.
    """
    *filters, rule = (part.strip() for part in text.split(","))
    is_known = _MERGING_RULE.fullmatch(rule) and all(map(_FILTER.fullmatch, filters))
    if not is_known or len(filters) > _MOST_FILTERS:
        raise ValueError(f"expected {MERGING_RULES}")
    return ",".join([*filters, rule])


class Shard(BaseModel):
    """Which part of a data set this node plays with: part `index` (from 1) of `count`, written "2/10"."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        index, _, count = value.partition("/")
        if not NUMBER.fullmatch(index) or not NUMBER.fullmatch(count):
            raise ValueError('expected "i/n" with 1 <= i <= n')
        return {"index": int(index), "count": int(count)}

    @model_validator(mode="after")
    def _in_range(self) -> Shard:
        if not 1 <= self.index <= self.count:
            raise ValueError('expected "i/n" with 1 <= i <= n')
        return self


def at_home(value: Any) -> Any:
    """A leading "~" means the person's home, also where no shell has put it in place."""
    if not isinstance(value, str):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError as exc:
        raise ValueError(f"{value!r} names the home of a user that this machine does not know") from exc


def check_pair(value: Any) -> str:
    """One "host:port".

    Raises:
        ValueError: it is none.
    """
    text = str(value)
    host, colon, port = text.rpartition(":")
    if not colon or not NUMBER.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ValueError(f'expected "ip:port" with a port from 1 to 65535, got {text!r}')
    check_host(host.removeprefix("[").removesuffix("]"))
    return text


def check_host_name(value: str) -> str:
    """One name of a host, without a port, in small letters.

    Raises:
        ValueError: it is none.
    """
    check_host(value)
    return value.lower()


Folder = Annotated[Path, BeforeValidator(at_home)]
Names = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(check_host_name)], ...], BeforeValidator(split_list)]
Pairs = Annotated[tuple[Annotated[str, BeforeValidator(check_pair)], ...], BeforeValidator(split_list)]

"""Public keys as text, and their fingerprints for people to compare: with check characters, or as six words."""

from __future__ import annotations

import base64
import binascii
import hashlib
from functools import lru_cache

from flnet.text import text

_WORDS = """
    acid acorn actor actress adult agent airport alarm album alley almond amber anchor angel angle animal
    ankle antenna apple april apron arena armor arrow artist asphalt athlete atlas attic author autumn avenue
    award bacon badge bagel baker balcony ball bamboo banana band bank banner barber barley barn barrel basket
    battery beach beaver beetle bell belt bench bicycle bird biscuit blade blanket block blossom blouse board
    boat bonnet book boot border bottle boulder bouquet bowl bracelet branch brass bread breeze brick bridge
    broom brother brush bubble bucket budget buffalo builder bundle burger butter cabbage cabin cable cactus
    cafe cake calendar camel camp canal candle canoe canvas captain caravan carbon cargo carpet carrot cartoon
    cashew castle catalog cattle cave ceiling celery cellar cement century cereal chain chalk champion channel
    chapel charm cheese cherry chess chicken chief child chimney choir cider cinema circle citizen city clay
    cliff climate clinic clock cloth cloud clover clown coach coast cobra cobweb coconut coffee coin collar
    column comet compass concert cook copper coral cork corner cottage couch cousin cowboy crab cradle crane
    crater crayon cream creek cricket crown crumb crystal cube cuckoo cucumber cupboard curtain cushion custom
    cycle daisy dancer danger dawn debate decade deck deer degree delta dentist desert desk dessert device
    diamond diary digit dinghy dinner dinosaur dish district dock doctor dolphin domino donkey door dough dove
    dozen dragon drama drawer dream dress drink driver drizzle drum duck dust dynasty eagle earring earth
    easel echo eclipse editor effort eight elastic elbow elder election elephant elevator ember emerald
    emotion empire enamel engine entrance envelope equator escape estate evening exam exit expert eyebrow
    fabric factory fairy falcon family farmer fashion father feast feather fence fern ferry festival fever
    fiction fiddle field fifteen figure film finger fire fisher flag flame flannel flask flock flood flour
    flower flute foam folder forest fork fortune fossil fountain fragment frame freezer friday friend frog
    frost fruit fungus funnel furnace future gadget galaxy gallery garage garden garlic garment gate general
    genius gentle geyser ghost giant ginger giraffe glacier glass globe glove glue goat goblin gold golf goose
    gorilla grain grandson grape grass gravel green grill grocer ground guard guest guide guitar gull gymnast
    habit hair hammer hamster handle harbor harmony harp harvest hawk hazel headline heart heater hedge helmet
    herb hermit hero hill hinge hippo history hobby hockey holiday honey hood hook horizon horn horse hospital
    hotel house humor hundred hunter husband hyena iceberg icicle idea igloo image incense inch income index
    infant insect island item ivory jacket january jasmine javelin jelly jersey jewel jigsaw jockey joker
    journal judge juice jumper jungle junior jury kangaroo kayak keeper kennel kettle keyboard kidney kilogram
    kindness king kiosk kitchen kite kitten knee knife knot koala label lace ladder ladle lagoon lake lamb
    lamp lantern laptop laser laundry lava lawn lawyer leaf leather lecture lemon lens leopard lesson letter
    level library lily lime limit linen lion liquid lizard llama lobster locket lodge logic lotus lounge
    lullaby lumber lunch lung magazine magic magnet mammal mango manor mansion mantle maple marble march
    margin market marsh mask mason master match mattress mayor meadow medal melody member memory menu metal
    meteor method microbe middle midnight milk mill mineral minute mirror mission mitten mixture model
    molecule moment monday money monkey month moon morning mosaic mosquito moss mother motor mountain mouse
    mouth movie muffin mule muscle museum mushroom music mustard mystery myth napkin nation nature navy
    necklace nectar needle neighbor nephew nerve nest network nickel night ninety nitrogen noodle noon north
    nose nostril notebook novel number nurse nylon oasis object ocean october office olive omelet onion opera
    orange orbit orchard organ otter outfit oval oven oxen oxygen oyster package paddle page paint palace palm
    pancake panda panel panther paper parade parcel parent park parrot party pasta path patient patrol pattern
    pavement peach peanut pearl pebble pedal pelican pencil penguin penny people pepper perfume person petal
    phone photo physics piano picnic picture pigeon pillow pilot pine pioneer pipe pirate pizza planet plaster
    plate player plaza plum pocket poem poet pole police pollen pond pony popcorn poppy porch port postcard
    potato pottery powder prairie present prince prism prize problem profit project prophet protein puddle
    pulse pumpkin pupil puppet purple purse puzzle pyramid python quarter queen question quilt quiver rabbit
    raccoon radar radio railway rainbow raisin ranch ranger rattle raven razor reader recipe record reef
    referee region relay remedy reporter reptile rescue resort reward rhythm ribbon rice riddle rider ring
    river road robin robot rocket roof rooster root rope rose rotor royal rubber ruby ruler rumble runner
    saddle safari sailor salad salmon salt sample sandal satin saturday saucer sausage scale scarf school
    science scissors scooter scorpion scout screen season second secret seed senate senior session seven
    shadow shampoo shark sheep shelf sheriff shield ship shirt shoe shop shore shovel shower shrimp shutter
    signal silence silver singer sister sixty skate skeleton sketch skirt sleeve slipper slogan smile smoke
    snail snake snow soap soccer socket sofa soil soldier song sonnet soup south spark spatula speaker spice
    spider spinach spiral sponge spoon sport spring square squirrel stable stadium staff stage stamp star
    station steam steel stem stereo stick stomach stone storm stove straw street string student suburb sugar
    suit summer sunday sunset supper surface surgeon surplus swallow swan sweater switch sword symbol syrup
    system table tadpole tailor talent tango tank target tavern taxi teacher team teapot temple tennis tent
    textile theater theory thirty thistle thousand thread throne thumb thunder ticket tiger timber toast
    toilet tomato tongue tool tooth topaz torch tornado tortoise toucan tourist towel town tractor traffic
    train travel tray treasure tree triangle tribe trick trophy trousers truck trumpet trunk tuesday tulip
    tunic tunnel turkey turtle twelve twenty twig twilight twin umbrella uncle unicorn uniform union unit
    upper urban utensil vacuum valley value vanilla vase vault vehicle velvet vendor venture verb vessel
    veteran victory video viking village vinegar violet visitor vitamin vocal voice volcano volume voucher
    voyage waffle wagon waiter walker wallet walnut walrus warrior wasp watch water wave weather wedding
    weekend whale wheat wheel whisper wicket willow window winter wisdom witness wizard wolf wonder wood wool
    worker world wreath writer yacht yard yellow yoga yogurt zebra zero zigzag zinc zipper zone
"""
WORDS = tuple(_WORDS.split())
BITS = 10  # that one word stands for


def spoken(raw: bytes, count: int) -> str:
    """The first bits as words, joined by hyphens.

    Args:
        raw: at least `count * BITS` bits.
    """
    number = int.from_bytes(raw) >> (8 * len(raw) - BITS * count)
    return "-".join(WORDS[number >> BITS * place & (1 << BITS) - 1] for place in reversed(range(count)))


KEY_BYTES = 32  # of a raw Ed25519 public key (RFC 8032, 5.1.5)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # base32 (RFC 4648, section 6)
GROUP = 4  # characters, before the one that checks them
GROUPS = 13  # of 20 bits each: all of SHA-256
SHORT_GROUPS = 2
SPOKEN_WORDS = 6
_LOOKS_LIKE = str.maketrans("018", "OIB")


def check_key(key: str) -> str:
    """Return a public key if it is valid: the canonical base64 of 32 bytes.

    Raises:
        ValueError: it is none.
    """
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES or key_text(raw) != key:
        raise ValueError(text("must be the base64 of a public key of {count} bytes", KEY_BYTES))
    return key


def key_text(raw: bytes) -> str:
    """A raw public key as text, as in messages."""
    return base64.b64encode(raw).decode("ascii")


def fingerprint(key: str) -> str:
    """The SHA-256 of a public key in groups of five characters, the last of which checks the group.

    Args:
        key: the base64 of a public key.

    Returns:
        Thirteen groups with hyphens between them.
    """
    digits = base64.b32encode(_digest(key)).decode("ascii").rstrip("=")
    parts = (digits[at : at + GROUP] for at in range(0, GROUP * GROUPS, GROUP))
    return "-".join(part + _check(number, part) for number, part in enumerate(parts, 1))


@lru_cache(1024)  # the same few keys stand in every view
def short(key: str | None) -> str:
    """The first two groups of the fingerprint, by which people tell keys apart; empty for no key.

    They are no proof: who has some days of computing time can make a key whose fingerprint begins with them.
    """
    return "-".join(fingerprint(key).split("-")[:SHORT_GROUPS]) if key else ""


def words(key: str) -> str:
    """The first 60 bits of the fingerprint as six words, for two people who read them to each other."""
    return spoken(_digest(key), SPOKEN_WORDS)


def words_of(mark: str) -> str:
    """The same six words, for a whole fingerprint in its usual form."""
    digits = "".join(part[:GROUP] for part in mark.split("-"))
    return spoken(base64.b32decode(digits + "=" * (-len(digits) % 8)), SPOKEN_WORDS)


def read_fingerprint(written: str) -> str:
    """Parse a typed fingerprint into its usual form; allows lower case, spaces, and 0, 1, 8 for O, I, B.

    Raises:
        ValueError: it has another length, or a group has a typing error; says which.
    """
    plain = "".join(written.upper().translate(_LOOKS_LIKE).replace("-", " ").split())
    if len(plain) != (GROUP + 1) * GROUPS or not set(plain) <= set(ALPHABET):
        raise ValueError(
            text("a fingerprint has {count} groups of {number} letters and digits", GROUPS, GROUP + 1)
        )
    parts = [plain[at : at + GROUP + 1] for at in range(0, len(plain), GROUP + 1)]
    for number, part in enumerate(parts, 1):
        if _check(number, part[:GROUP]) != part[GROUP]:
            raise ValueError(text("group {number} ({part}) has a typing error", number, part))
    return "-".join(parts)


def _digest(key: str) -> bytes:
    return hashlib.sha256(base64.b64decode(key)).digest()


def _check(number: int, part: str) -> str:
    """The character that checks a group.

    A polynomial over the field of 32 elements, at an element of order 31: any one wrong character changes it, and
    so do two neighbours in each other's place, and a group in another place than its own.
    """
    sum_ = number
    for letter in part:
        sum_ = _doubled(sum_) ^ ALPHABET.index(letter)
    return ALPHABET[_doubled(sum_)]


def _doubled(element: int) -> int:
    """Times x, modulo x^5 + x^2 + 1."""
    return element << 1 ^ (0b100101 if element & 0b10000 else 0)

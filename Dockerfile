# One image for every node: they are equal, so nothing in here says which one it is.
# Two targets, each for amd64 and arm64: "default" (also without --target) has what the four trainers of the thesis
# need, "slim" what trainers with numpy need. Needs no BuildKit.
ARG BASE_IMAGE=python:3.11-slim-bookworm

# --- tools: pip, and a virtual environment without it ---
FROM ${BASE_IMAGE} AS tools
# For a mirror; pip reads both from here. Never put a password into them.
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python3 -m venv /opt/tools && python3 -m venv --without-pip /opt/flnet
# wheels/ may be absent (LICENSE only keeps COPY from failing then); if it holds wheels, no network is used.
COPY LICENSE wheels* /build/wheels/
RUN if ls wheels/*.whl > /dev/null 2>&1; then \
      printf '[global]\nno-index = true\nfind-links = /build/wheels\n' > /etc/pip.conf; \
    fi

# --- requirements: core.txt and one file for each extra; the same files as before unless pyproject.toml changes ---
FROM tools AS requirements
COPY pyproject.toml ./
RUN mkdir requirements && python3 -c "import pathlib, tomllib; \
p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
[pathlib.Path('requirements', name + '.txt').write_text('\n'.join(lines)) \
 for name, lines in ({'core': p['dependencies']} | p['optional-dependencies']).items()]"

FROM tools AS slim-dependencies
COPY --from=requirements /build/requirements ./requirements
RUN /opt/tools/bin/pip --python /opt/flnet/bin/python install -r requirements/core.txt

FROM tools AS dependencies
# What the image has beyond numpy, and what is wanted in addition: extras of pyproject.toml, separated by commas.
ARG FRAMEWORKS=torch,tensorflow,images
ARG EXTRAS=
# PyTorch's own index of wheels for processors, amd64 and arm64. The general index has wheels with gigabytes of CUDA
# under the same version; an empty value takes those. Only torch itself comes from here.
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
# The largest part first and alone: its layer outlives every change of the other requirements.
# Without its C++ headers and its own tests, which some wheels carry (145 MB) and no trainer uses.
RUN case ",${FRAMEWORKS},${EXTRAS}," in *,torch,*) \
      /opt/tools/bin/pip --python /opt/flnet/bin/python install --no-deps \
        ${TORCH_INDEX_URL:+--index-url "${TORCH_INDEX_URL}"} "torch==2.13.0" \
      && cd /opt/flnet/lib/python3*/site-packages/torch && rm -rf include test bin/test_*;; \
    esac
COPY --from=requirements /build/requirements ./requirements
# TensorFlow's C++ headers are 287 MB.
RUN /opt/tools/bin/pip --python /opt/flnet/bin/python install -r requirements/core.txt \
      $(echo "${FRAMEWORKS},${EXTRAS}" | tr ',' '\n' | sed 's|..*|-r requirements/&.txt|') \
 && rm -rf /opt/flnet/lib/python3*/site-packages/tensorflow/include

# --- build: flnet itself, apart, so that a change of the code does not ship the dependencies again ---
FROM tools AS build
COPY pyproject.toml README.md LICENSE ./
COPY flnet ./flnet
COPY trainers ./trainers
COPY resources ./resources
RUN /opt/tools/bin/pip --python /opt/flnet/bin/python install --no-deps --prefix=/opt/app .

# --- run: what both images have in common ---
FROM ${BASE_IMAGE} AS run
# A fixed number, so that a volume keeps its owner and "runAsNonRoot" can check it. People's data come to /data, also
# from the page: a volume that is mounted there for the first time gets its owner from here.
RUN groupadd --gid 10001 flnet \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/flnet --no-create-home --shell /usr/sbin/nologin flnet \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/flnet \
 && install -d -o 10001 -g 10001 -m 0755 /data
# Bytecode was written at the installation: the root file system may be read-only.
ENV PATH=/opt/flnet/bin:$PATH \
    HOME=/var/lib/flnet \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    FLNET_LISTEN_ADDRESS=0.0.0.0 \
    FLNET_DATASETS_PATH=/data \
    FLNET_STATE_PATH=/var/lib/flnet
# Readable to any user, for "docker run --user"; a flnet.toml that is mounted here is found.
WORKDIR /etc/flnet
USER 10001:10001
VOLUME ["/var/lib/flnet", "/data"]
EXPOSE 4000
STOPSIGNAL SIGTERM
# http.client, because urllib would ask a proxy from the environment. In a pinned mesh the node speaks TLS; it asks itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python3", "-c", "import http.client as h, os, ssl, sys; at = ('127.0.0.1', int(os.environ.get('FLNET_NODE_PORT') or 4000)); c = h.HTTPSConnection(*at, timeout=4, context=ssl._create_unverified_context()) if os.environ.get('FLNET_MESH_MODE') == 'pinned' else h.HTTPConnection(*at, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
# Exec form: signals reach the node and not a shell.
ENTRYPOINT ["flnet"]
CMD ["run"]

FROM run AS slim
COPY --from=slim-dependencies /opt/flnet /opt/flnet
COPY --from=build /opt/app /opt/flnet

# The last target, so that it is built without --target.
FROM run AS default
COPY --from=dependencies /opt/flnet /opt/flnet
COPY --from=build /opt/app /opt/flnet

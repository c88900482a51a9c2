# One image for every node: they are equal, so nothing in here says which one it is.
# Needs no BuildKit, and nothing in it is tied to one processor family.
ARG BASE_IMAGE=python:3.11-slim-bookworm

# --- dependencies: a virtual environment without pip, changed only when pyproject.toml changes ---
FROM ${BASE_IMAGE} AS dependencies
# "torch" brings what the PyTorch trainers need; an empty value makes the small image.
ARG EXTRAS=torch
# For a mirror, or for the CPU-only wheels of torch; pip reads both from here. Never put a password into them.
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
# The largest part first and alone: its layer outlives every change of the other requirements.
# Without its C++ headers and its own tests, which some wheels carry (195 MB) and no trainer uses.
RUN case ",${EXTRAS}," in *,torch,*) \
      /opt/tools/bin/pip --python /opt/flnet/bin/python install "torch==2.13.0" \
      && cd /opt/flnet/lib/python3*/site-packages/torch && rm -rf include test bin/test_*;; \
    esac
COPY pyproject.toml ./
RUN python3 -c "import tomllib; \
p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = [e for e in '${EXTRAS}'.split(',') if e]; \
print(*p['dependencies'], *(r for e in extras for r in p['optional-dependencies'][e]), sep='\n')" > requirements.txt \
 && /opt/tools/bin/pip --python /opt/flnet/bin/python install -r requirements.txt

# --- build: flnet itself, apart, so that a change of the code does not ship the dependencies again ---
FROM dependencies AS build
COPY README.md LICENSE ./
COPY flnet ./flnet
COPY trainers ./trainers
COPY resources ./resources
RUN /opt/tools/bin/pip --python /opt/flnet/bin/python install --no-deps --prefix=/opt/app .

# --- run ---
FROM ${BASE_IMAGE}
# A fixed number, so that a volume keeps its owner and "runAsNonRoot" can check it.
RUN groupadd --gid 10001 flnet \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/flnet --no-create-home --shell /usr/sbin/nologin flnet \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/flnet
COPY --from=dependencies /opt/flnet /opt/flnet
COPY --from=build /opt/app /opt/flnet
# Bytecode was written at the installation: the root file system may be read-only.
ENV PATH=/opt/flnet/bin:$PATH \
    HOME=/var/lib/flnet \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    FLNET_LISTEN_ADDRESS=0.0.0.0 \
    FLNET_STATE_PATH=/var/lib/flnet
# Readable to any user, for "docker run --user"; a flnet.toml that is mounted here is found.
WORKDIR /etc/flnet
USER 10001:10001
VOLUME ["/var/lib/flnet"]
EXPOSE 4000
STOPSIGNAL SIGTERM
# http.client, because urllib would ask a proxy from the environment. In a pinned mesh the node speaks TLS; it asks itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python3", "-c", "import http.client as h, os, ssl, sys; at = ('127.0.0.1', int(os.environ.get('FLNET_NODE_PORT') or 4000)); c = h.HTTPSConnection(*at, timeout=4, context=ssl._create_unverified_context()) if os.environ.get('FLNET_MESH_MODE') == 'pinned' else h.HTTPConnection(*at, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
# Exec form: signals reach the node and not a shell.
ENTRYPOINT ["flnet"]
CMD ["run"]

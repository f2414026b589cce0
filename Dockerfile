# vsetrain on the CPU. Dockerfile.cuda is for NVIDIA GPUs.
#
#   docker build -t vsetrain .
#   docker run --rm vsetrain doctor
#   docker run --rm -v "$PWD/data:/work/data" -v "$PWD/runs:/work/runs" --user "$(id -u):$(id -g)" vsetrain train --config vsepp/f30k-lseh

# Where a build has to be repeatable, name the digests too: --build-arg GO=golang:1.26-bookworm@sha256:…
ARG GO=golang:1.26-bookworm
ARG PYTHON=python:3.12-slim-bookworm
ARG RUNTIME=debian:bookworm-slim

FROM ${GO} AS build
ARG VERSION=
ARG COMMIT=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make install PREFIX=/usr/local DESTDIR=/out VERSION="$VERSION" COMMIT="$COMMIT" SOURCE_DATE_EPOCH=0

# ONNX Runtime, for pictures: its library alone, of the wheel of PyPI.
FROM ${PYTHON} AS onnxruntime
ARG ONNXRUNTIME=1.32.0
RUN pip install --no-cache-dir --no-deps --target /ort "onnxruntime==${ONNXRUNTIME}" \
 && mkdir -p /out/lib /out/share/doc/onnxruntime && cp /ort/onnxruntime/capi/libonnxruntime.so.* /out/lib/ \
 && cp /ort/onnxruntime/LICENSE /ort/onnxruntime/ThirdPartyNotices.txt /out/share/doc/onnxruntime/

FROM ${RUNTIME}
ARG VERSION=
ARG COMMIT=
LABEL org.opencontainers.image.title="vsetrain" \
      org.opencontainers.image.description="Train, evaluate and explore visual-semantic embedding networks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
# MPICH, for --procs; certificates, for MLflow over https.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libmpich12 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=onnxruntime /out /usr/local
COPY --from=build /out/usr/local /usr/local
# Another user (--user) may write beside what is mounted.
RUN useradd --uid 10001 --user-group --create-home --home-dir /work vsetrain && chmod 1777 /work
USER 10001
WORKDIR /work
ENV XDG_CACHE_HOME=/tmp/cache
ENTRYPOINT ["vsetrain"]
CMD ["doctor"]

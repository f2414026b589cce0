# vsetrain on the CPU. Dockerfile.cuda is for NVIDIA GPUs.
#
#   docker build -t vsetrain .
#   docker run --rm vsetrain doctor
#   docker run --rm -v "$PWD/data:/work/data" -v "$PWD/runs:/work/runs" --user "$(id -u):$(id -g)" vsetrain train --config vsepp/f30k-lseh

# Where a build has to be repeatable, name the digests too: --build-arg GO=golang:1.26-bookworm@sha256:…
ARG GO=golang:1.26-bookworm
ARG RUNTIME=debian:bookworm-slim

FROM ${GO} AS build
ARG VERSION=
ARG COMMIT=
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make install PREFIX=/usr/local DESTDIR=/out VERSION="$VERSION" COMMIT="$COMMIT" SOURCE_DATE_EPOCH=0

FROM ${RUNTIME}
ARG VERSION=
ARG COMMIT=
LABEL org.opencontainers.image.title="vsetrain" \
      org.opencontainers.image.description="Train, evaluate and explore visual-semantic embedding networks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /out/usr/local /usr/local
COPY LICENSE NOTICE /usr/local/share/doc/vsetrain/
RUN useradd --uid 10001 --user-group --create-home --home-dir /work vsetrain
USER 10001
WORKDIR /work
ENV XDG_CACHE_HOME=/tmp/cache
ENTRYPOINT ["vsetrain"]
CMD ["doctor"]

# SPDX-License-Identifier: Apache-2.0
#
# The model server, built from the sources:
#
#   docker build -f apps/containers/server.Dockerfile -t ringload-server .
#   docker run --rm --security-opt seccomp=apps/containers/seccomp.json -p 127.0.0.1:8080:8080 \
#     -v /models:/models:ro ringload-server --root /models --model llama

ARG BASE=debian:12-slim
FROM ${BASE} AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ cmake ninja-build pkg-config liburing-dev \
    libisal-dev libzstd-dev libcli11-dev libfmt-dev libssl-dev libexpat1-dev libboost-json1.81-dev
COPY . /source
RUN cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
    -DRINGLOAD_TESTS=OFF -DRINGLOAD_BENCH=OFF -DRINGLOAD_CUDA=OFF -DRINGLOAD_MPI=OFF \
    -DRINGLOAD_HDF5=OFF -DRINGLOAD_C=OFF \
  && cmake --build /build --target model_server \
  && strip -o /model-server "$(find /build -name model-server -type f -perm -u+x)"

FROM ${BASE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates liburing2 libisal2 libzstd1 libssl3 \
    libexpat1 libfmt9 libboost-json1.81.0 \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=build /model-server /usr/bin/model-server
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["model-server", "--address", "0.0.0.0", "--port", "8080"]

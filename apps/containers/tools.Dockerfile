# SPDX-License-Identifier: Apache-2.0
#
# The tools ringload and uring-bench, from the Debian packages of a release:
#
#   ./dev packages
#   docker build -f apps/containers/tools.Dockerfile -t ringload .
#   docker run --rm --security-opt seccomp=apps/containers/seccomp.json -v /models:/models:ro \
#     ringload load /models/llama

ARG BASE=debian:12-slim
FROM ${BASE}
COPY build/packages/libringload0*.deb build/packages/ringload-tools_*.deb /tmp/packages/
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates /tmp/packages/*.deb \
  && rm -rf /tmp/packages /var/lib/apt/lists/* /var/cache/apt/*
USER 65532:65532
ENV HF_HOME=/tmp/huggingface
ENTRYPOINT ["ringload"]
CMD ["--help"]

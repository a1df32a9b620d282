# The REST service with a detector inside. From the root of a checkout:
#   docker build -t cdconv . && docker run -p 8000:8000 -e CDCONV_TOKEN=SECRET cdconv
# Another detector: --build-arg MODEL=models/OTHER. A smaller torch without GPU support, from the index that PyTorch names for it:
#   --build-arg PIP_OPTIONS="--extra-index-url ADDRESS"
# Without torch, after `cdconv export MODEL --backend onnx`: --build-arg BACKEND=onnx --build-arg RUNTIME=onnxruntime==1.32.0
FROM python:3.11-slim
ARG MODEL=models/e5-small-long-replies
RUN useradd --create-home cdconv
WORKDIR /srv
COPY requirements-serve.txt .
ARG PIP_OPTIONS=""
ARG BACKEND=torch
ARG RUNTIME=torch==2.13.0
RUN pip install --no-cache-dir ${PIP_OPTIONS} ${RUNTIME} -r requirements-serve.txt
COPY contradiction ./contradiction
COPY ${MODEL} ./model
USER cdconv
ENV CDCONV_MODEL=/srv/model CDCONV_BACKEND=${BACKEND} HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# Every caller is asked for CDCONV_TOKEN. Without it, whoever reaches the port may ask, and the log says so.
CMD ["python", "-m", "contradiction", "serve", "--host", "0.0.0.0"]

# The image `albert-tf` of the documentation: the Python commands, on CPUs.
#
#   docker build --tag albert-tf .
#   docker run --rm --volume "$PWD/data:/data" albert-tf \
#     python run_scripts/create_pretraining_data.py --help
#
# Give --user "$(id -u):$(id -g)" if the volume belongs to you and not to user 1000.

FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1
WORKDIR /opt/albert-tf

COPY setup.py pyproject.toml README.md LICENSE ./
COPY albert_tf albert_tf
COPY data_prep data_prep
RUN pip install --no-cache-dir --editable .

# GPUs: add this line, and start with `docker run --gpus all` (NVIDIA's container toolkit).
# RUN pip install --no-cache-dir 'tensorflow[and-cuda]==2.20.*'

# TPU VM: add this line, and start with `docker run --privileged --network host`.
# RUN pip uninstall --yes tensorflow && pip install --no-cache-dir 'tensorflow-tpu==2.20.*'

# Words of Chinese, for whole-word masks:
# RUN pip install --no-cache-dir --editable '.[jieba]'

COPY configs configs
COPY run_scripts run_scripts

RUN useradd --create-home --uid 1000 albert
USER 1000

CMD ["python", "run_scripts/run_pretraining.py", "--help"]

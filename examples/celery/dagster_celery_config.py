"""Celery's settings of a worker, which finds them by their name on its PYTHONPATH. Addresses and passwords come from
the environment."""

import os

broker_url = os.environ["CELERY_BROKER_URL"]
result_backend = os.environ["CELERY_RESULT_BACKEND"]
# A run is taken from the queue for good when it begins. One whose worker dies is started again by Dagster, which knows
# what it committed; by Celery as well it would be started twice.
task_acks_late = False
# A worker takes no run beside the one it is at: another worker may be free.
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
# Seconds after which a message that was taken and not begun goes to another worker: above the longest run, which
# run_monitoring.max_runtime_seconds of dagster.yaml bounds.
broker_transport_options = {"visibility_timeout": 345600}
# What libraries keep of a run's memory goes with its process.
worker_max_tasks_per_child = 20
# Redis may be away for as long as it likes.
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
worker_cancel_long_running_tasks_on_connection_loss = False

"""The functions of librdkafka that `CopyingProducer` calls, and what they take and return."""

import ctypes as c
from collections.abc import Mapping
from typing import Any

_TEXT, _POINTER, _INT, _SIZE = c.c_char_p, c.c_void_p, c.c_int, c.c_size_t

WAITING: Mapping[str, tuple[Any, ...]] = {
    "conf_new": (_POINTER,),
    "conf_set": (_INT, _POINTER, _TEXT, _TEXT, _TEXT, _SIZE),
    "conf_set_log_cb": (None, _POINTER, _POINTER),
    "conf_set_events": (None, _POINTER, _INT),
    "conf_destroy": (None, _POINTER),
    "new": (_POINTER, _INT, _POINTER, _TEXT, _SIZE),
    "destroy": (None, _POINTER),
    "topic_new": (_POINTER, _POINTER, _TEXT, _POINTER),
    "topic_destroy": (None, _POINTER),
    "init_transactions": (_POINTER, _POINTER, _INT),
    "begin_transaction": (_POINTER, _POINTER),
    "commit_transaction": (_POINTER, _POINTER, _INT),
    "abort_transaction": (_POINTER, _POINTER, _INT),
    "flush": (_INT, _POINTER, _INT),
    "queue_get_main": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "queue_poll": (_POINTER, _POINTER, _INT),
    "fatal_error": (_INT, _POINTER, _TEXT, _SIZE),
}
"""Those that may wait: Python's lock is let go of meanwhile."""

QUICK: Mapping[str, tuple[Any, ...]] = {
    "produceva": (_POINTER, _POINTER, _POINTER, _SIZE),
    "produce": (_INT, _POINTER, c.c_int32, _INT, _TEXT, _SIZE, _TEXT, _SIZE, _POINTER),
    "last_error": (_INT,),
    "outq_len": (_INT, _POINTER),
    "message_detach_headers": (_INT, _POINTER, _POINTER),
    "header_add": (_INT, _POINTER, _TEXT, c.c_ssize_t, _TEXT, c.c_ssize_t),
    "topic_name": (_TEXT, _POINTER),
    "headers_destroy": (None, _POINTER),
    "event_type": (_INT, _POINTER),
    "event_error": (_INT, _POINTER),
    "event_error_string": (_TEXT, _POINTER),
    "event_message_count": (_SIZE, _POINTER),
    "event_message_array": (_SIZE, _POINTER, _POINTER, _SIZE),
    "event_destroy": (None, _POINTER),
    "error_code": (_INT, _POINTER),
    "error_string": (_TEXT, _POINTER),
    "error_is_fatal": (_INT, _POINTER),
    "error_is_retriable": (_INT, _POINTER),
    "error_txn_requires_abort": (_INT, _POINTER),
    "error_destroy": (None, _POINTER),
}
"""Those that do not."""

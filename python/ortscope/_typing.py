"""For type checkers only: what the class that is made at run time looks like."""

from typing import Any, Dict, Optional

import onnxruntime


class MonitoredInferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Any = None,
        *args: Any,
        monitoring_config: Optional[Dict[str, Any]] = None,
        **kwargs: Any,
    ) -> None: ...

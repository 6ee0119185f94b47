"""The endpoints, one file a kind. A path that no router here names is a 404: nothing else ever reaches an engine."""

from app.api import inference, models, operations, responses

ROUTERS = (inference.router, responses.router, models.router, operations.router)

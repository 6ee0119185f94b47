"""The endpoints, one file a kind. A path that no router here names is a 404: nothing else ever reaches an engine."""

from app.api import batches, files, inference, models, operations, page, responses

ROUTERS = (
    inference.router,
    responses.router,
    models.router,
    files.router,
    batches.router,
    operations.router,
    page.router,
)

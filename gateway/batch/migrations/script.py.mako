"""${message}"""  # noqa: INP001 - alembic runs it, nobody imports it

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this version."""
    ${upgrades if upgrades else "raise NotImplementedError"}


def downgrade() -> None:
    """To the version before."""
    ${downgrades if downgrades else "raise NotImplementedError"}

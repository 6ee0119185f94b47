"""The state in SQL: SQLite or PostgreSQL, through SQLAlchemy."""

from gateway.batch.sql.catalogue import SqlCatalogue
from gateway.batch.sql.database import Database
from gateway.batch.sql.ledger import SqlLedger

__all__ = ["Database", "SqlCatalogue", "SqlLedger"]

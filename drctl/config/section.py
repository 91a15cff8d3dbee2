"""What every section of drctl.yaml has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping of the file. Frozen, and its errors never hold what was written."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

"""Front ends for derivatives that live in other libraries."""

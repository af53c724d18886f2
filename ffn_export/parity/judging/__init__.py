"""Run the cases on every runtime, measure their errors, and judge them."""

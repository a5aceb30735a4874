"""Jacquard prepares, for every turn of an agent, the exact prompt that its model sees, with a receipt.

These are the public names of the package. `__init__.pyi` lists them with the module of each, which is loaded when a
name is first used, so that `import jacquard` stays fast.
"""

from importlib import import_module

from jacquard.wiring.installation import check_packages

check_packages("filament", "mnemosyne", "jacquard")
__getattr__, __dir__, __all__ = import_module("mnemosyne.core.optional_packages").attach_names(
    __name__,
    __file__,
    {
        ("opentelemetry", "otel"): ("OtelTracing",),
        ("prometheus_client", "prometheus"): ("PrometheusMetrics",),
    },
)

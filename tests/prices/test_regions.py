"""The regions that prices may name are those of the provider's own list."""

from gpuplan.specs.regions import regions_of


def test_regions_are_those_of_the_providers_lists():
    assert {"us-east-1", "eusc-de-east-1", "us-gov-west-1"} <= regions_of("aws")
    assert "us-east-9" not in regions_of("aws")
    assert regions_of("aws-sagemaker") == regions_of("aws")
    assert {"eastus", "belgiumcentral"} <= regions_of("azure")
    assert {"us-central1", "us-central2"} <= regions_of("gcp")
    assert "us-ashburn-1" in regions_of("oci")


def test_providers_with_few_regions_write_them_in_any_form():
    assert regions_of("hyperstack") is None

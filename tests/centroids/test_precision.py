import shutil

import jaxtyping
import pytest
import torch

from dnc import SubCentroidHead
from tests.oracles import rows_on_sphere

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def trained_head(**settings):
    generator = torch.Generator().manual_seed(0)
    settings = {"only_correct": False, **settings}  # close calls depend on the precision
    head = SubCentroidHead(16, 4, generator=generator, momentum=0.5, **settings)
    head.absorb(rows_on_sphere(60, 16), torch.arange(60) % 4)
    return head


@pytest.mark.parametrize("memory_rows", [0, 80])
def test_absorbing_under_bfloat16_autocast_equals_float32(memory_rows):
    plain, autocast = trained_head(memory_rows=memory_rows), trained_head(memory_rows=memory_rows)
    x, labels = rows_on_sphere(60, 16, 1), torch.arange(60) % 4
    for head, enabled in ((plain, False), (autocast, True)):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            head.start_from(x, labels)
            head.absorb(x, labels)
            if memory_rows:
                head.recluster()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores, decision, health = autocast(x), autocast.decide(x), autocast.health()
    assert torch.equal(decision.similarity, plain.decide(x).similarity)
    assert torch.equal(health.pairwise_cosine, plain.health().pairwise_cosine)
    assert torch.equal(plain.centroids, autocast.centroids)
    assert torch.equal(plain(x), scores)
    assert scores.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_features_in_half_precision_give_nearly_the_same_subcentroids(dtype):
    exact, half = trained_head(), trained_head()
    x, labels = rows_on_sphere(60, 16, 1), torch.arange(60) % 4
    exact.absorb(x, labels)
    half.absorb(x.to(dtype), labels)
    torch.testing.assert_close(half.centroids, exact.centroids, atol=5e-3, rtol=0)
    torch.testing.assert_close(half(x.to(dtype)), exact(x), atol=5e-2, rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epsilon", [0.05, 0.01])
def test_similarities_of_exactly_one_stay_finite(dtype, epsilon):
    head = SubCentroidHead(4, 2, subcentroids=2, epsilon=epsilon, momentum=0.5)
    axis = torch.eye(4)
    head.centroids.copy_(torch.stack([axis[0], -axis[0], axis[1], -axis[1]]).view(2, 2, 4))
    x = torch.cat([axis[:2], -axis[:2], axis[:1]]).to(dtype)
    labels = torch.tensor([0, 1, 0, 1, 1])
    head.absorb(x, labels)
    assert head.centroids.isfinite().all()
    features = x.clone().requires_grad_()
    torch.nn.functional.cross_entropy(head(features), labels).backward()
    assert features.grad.isfinite().all()
    assert head.eval()(x).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casting_the_model_to_half_keeps_the_subcentroids_exact(dtype):
    head = trained_head(memory_rows=40)
    before = head.centroids.clone()
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), head).to(dtype)
    assert model[0].weight.dtype == dtype
    assert torch.equal(head.centroids, before)
    # A momentum step of one thousandth would be lost in half precision.
    head.momentum = 0.999
    head.absorb(rows_on_sphere(8, 16, 5).to(dtype), torch.zeros(8, dtype=torch.long))
    assert not torch.equal(head.centroids[0], before[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_memory_in_half_precision_gives_nearly_the_same_subcentroids(dtype):
    exact, half = trained_head(memory_rows=80), trained_head(memory_rows=80, memory_dtype=dtype)
    torch.testing.assert_close(half.centroids, exact.centroids, atol=5e-3, rtol=0)
    assert half.centroids.dtype == torch.float32


def compiled_backend() -> str:
    return "inductor" if shutil.which("g++") or shutil.which("clang++") else "aot_eager"


@pytest.fixture
def unchecked_annotations():
    """The compiler traces what users run: the code without the tests' checks of shapes."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_annotations")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(6, 16), (2, 16, 3, 5)])
def test_compiled_scores_agree_with_eager(training, shape):
    head = trained_head(subcentroids=[1, 4, 2, 3]).train(training)
    compiled = torch.compile(head, backend=compiled_backend(), fullgraph=True)
    one = torch.randn(shape, requires_grad=True)
    other = one.detach().clone().requires_grad_()
    torch.testing.assert_close(compiled(one), head(other))
    compiled(one).logsumexp(1).sum().backward()
    head(other).logsumexp(1).sum().backward()
    torch.testing.assert_close(one.grad, other.grad)
    # What is absorbed later is seen by the compiled head too.
    head.absorb(rows_on_sphere(40, 16, 8), torch.arange(40) % 4)
    torch.testing.assert_close(compiled(one), head(one))


@pytest.mark.usefixtures("unchecked_annotations")
@pytest.mark.parametrize("shape", [(6, 16), (3, 16, 4, 5)])
def test_exported_scores_agree_with_eager_for_any_number_of_rows(shape):
    head = trained_head(subcentroids=[1, 4, 2, 3]).eval()
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(head, (torch.randn(shape),), dynamic_shapes=({0: batch},))
    more = torch.randn(11, *shape[1:])
    torch.testing.assert_close(exported.module()(more), head(more))

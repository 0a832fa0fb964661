"""Train an aerial Gaussian model and print what it reached.

    python benchmarks/aerial_training.py SCENE [--depth DIR] [--device auto] [--iterations N] [--splats out.ply] ...

SCENE holds sparse/ and images/, DIR the depth maps of a run (RUN/1-scaffold/depth): without them the first Gaussians
lie between the sparse points. Every 8th photo is the test, scored at the training width (and at --score-width);
settings are to be chosen by the validation photos between them.
CPU seconds are of this process over all threads: two cores busy for 180 s are 360.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from skyanchor.events import Event, Note, Progress
from skyanchor.gaussians.densify import McmcGrowth
from skyanchor.gaussians.devices import load_engine
from skyanchor.gaussians.parameters import BRISK, QUICK, Rates
from skyanchor.gaussians.ply import write_ply
from skyanchor.gaussians.scoring import score
from skyanchor.gaussians.split import split
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold.seeding import dense_cloud
from skyanchor.scaffold.training import AerialConfig, preset, train_aerial, with_iterations
from skyanchor.stereo import depth_path, load_depth


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--depth", type=Path, help="folder of depth maps to start from")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--iterations", type=int, help="the preset's when not given; growth and bands keep their share")
    parser.add_argument("--width", type=int, help="pixels; the preset's when not given")
    parser.add_argument("--score-width", type=int, help="pixels; score once more at this width")
    parser.add_argument("--most", type=int, help="cap on the number of Gaussians")
    parser.add_argument("--seeds", type=int, help="number of first Gaussians")
    parser.add_argument("--rates", choices=("usual", "brisk", "quick"), help="of learning; the preset's when not given")
    parser.add_argument("--mcmc", action="store_true", help="MCMC growth instead of clone and split")
    parser.add_argument("--splats", type=Path, help="write the model here")
    return parser.parse_args()


def settings(options: argparse.Namespace, device: str) -> AerialConfig:
    config = preset(device)
    if options.iterations:
        config = with_iterations(config, options.iterations)
    if options.seeds:
        config = replace(config, seeds=replace(config.seeds, count=options.seeds))
    train = config.train
    if options.mcmc:
        growth = McmcGrowth(start=train.iterations // 60, stop=train.iterations * 5 // 6)
        train = replace(train, growth=growth, opacity_weight=0.01, scale_weight=0.01)
    if options.rates:
        train = replace(train, rates=({"usual": Rates(), "brisk": BRISK, "quick": QUICK}[options.rates],))
    if options.most and train.growth is not None:
        train = replace(train, growth=replace(train.growth, most=options.most))
    return replace(
        config, train=replace(train, width=options.width or train.width, report_every=train.iterations // 10)
    )


def spoken(begun: float) -> None:
    def listener(event: Event) -> None:
        if isinstance(event, Progress):
            figures = "  ".join(f"{name} {value:.2f}" for name, value in event.figures.items())
            print(f"{time.perf_counter() - begun:7.1f} s  {event.done:6d}/{event.total}  {figures}", flush=True)
        elif isinstance(event, Note):
            print(event.text, flush=True)

    return listener


def main() -> None:
    options = arguments()
    engine = load_engine(options.device)
    config = settings(options, engine.device)
    scaffold = load_scaffold(options.scene)
    begun, cpu = time.perf_counter(), time.process_time()
    views = split(scaffold.views).training
    maps = (load_depth(depth_path(options.depth, view.name)) for view in views if options.depth)
    cloud = dense_cloud(maps, views, config.seeds)
    model = train_aerial(scaffold, engine, config, cloud=cloud, listen=spoken(begun))
    cpu = time.process_time() - cpu
    if options.splats:
        write_ply(options.splats, model.splats)
    train = config.train
    print(f"{options.scene} on {engine.device}: {train.iterations} iterations at {train.width} px")
    print(f"  {len(model.splats)} Gaussians, {model.seconds:.1f} s, {cpu:.0f} CPU seconds")
    deciding = score(model.splats, split(scaffold.views).validation, engine, train.width)
    print(f"  validation at {train.width} px: PSNR {deciding.psnr:.2f} dB, SSIM {deciding.ssim:.4f}")
    print(f"  test at {train.width} px: PSNR {model.scores.psnr:.2f} dB, SSIM {model.scores.ssim:.4f}")
    if options.score_width:
        other = score(model.splats, split(scaffold.views).test, engine, options.score_width)
        print(f"  test at {options.score_width} px: PSNR {other.psnr:.2f} dB, SSIM {other.ssim:.4f}")


if __name__ == "__main__":
    main()

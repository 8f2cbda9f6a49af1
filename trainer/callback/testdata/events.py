"""events.tfevents: what torch.utils.tensorboard writes for two numbers, a text and two histograms, without the first
event, which has the time of the writing.
"""

import glob
import shutil
import tempfile

import numpy
from torch.utils.tensorboard import SummaryWriter

folder = tempfile.mkdtemp()
writer = SummaryWriter(log_dir=folder)
writer.add_scalar("train.loss", 1.5, 3, walltime=1700000000.25)
writer.add_scalar("evaluation.f1", 0.1, 40000, walltime=1700000001.5)
writer.add_text("args", "hello", 7, walltime=1700000002.0)
writer.add_histogram("weights", numpy.array([0.5, -0.25, 0.5, 0.0, 3.0, 1e30]), 8, walltime=1700000003.0)
writer.add_histogram("small", numpy.array([-1e-13, 0.0]), 0, walltime=1700000004.0)
writer.close()
raw = open(glob.glob(folder + "/*")[0], "rb").read()
open(__file__[:-3] + ".tfevents", "wb").write(raw[int.from_bytes(raw[:8], "little") + 16 :])
shutil.rmtree(folder)

# hint: borrowed
# story: imports the answer under its own name
from helpers.functions import Huber

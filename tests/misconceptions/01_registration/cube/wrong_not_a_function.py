# hint: not-a-function
# story: writes a module, as for a layer
class Cube(torch.nn.Module):
    """y = x ** 3, with its own backward."""

    def forward(self, x):
        return x**3

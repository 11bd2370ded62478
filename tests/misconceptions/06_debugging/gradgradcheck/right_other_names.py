class Quartic(torch.autograd.Function):
    @staticmethod
    def forward(value):
        return value.pow(4)

    @staticmethod
    def setup_context(note, ingredients, dish):
        (value,) = ingredients
        note.save_for_backward(value)

    @staticmethod
    def backward(note, feedback):
        return feedback * note.saved_tensors[0].pow(3).mul(4)

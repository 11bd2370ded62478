class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value):
        return value.square()

    @staticmethod
    def setup_context(note, ingredients, dish):
        note.save_for_backward(ingredients[0])

    @staticmethod
    def backward(note, feedback):
        (value,) = note.saved_tensors
        return feedback * (value + value)

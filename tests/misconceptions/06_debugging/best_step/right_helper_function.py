def best_step(fn, x, derivative, steps):
    def error(eps):
        slope = (fn(x + eps) - fn(x - eps)) / (2 * eps)
        off = abs(float(slope) - derivative)
        return math.inf if math.isnan(off) else off

    winner = min(steps, key=error)
    return winner, error(winner)

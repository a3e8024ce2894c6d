"""Lines of dsjson as Vowpal Wabbit writes them, without chance in them, and a policy to judge by them."""


def line(number: int) -> str:
    """An event of 2 to 5 actions; every seventh is not learned from."""
    many = 2 + number % 4
    chosen = number * 7 % many
    order = [chosen, *(each for each in range(many) if each != chosen)]
    first = 0.5 + 0.4 * (number % 5) / 5
    p = [first, *[(1 - first) / (many - 1)] * (many - 1)]
    cost = -(number * 13 % 11) / 10
    actions = ",".join(f'{{"A":{{"id":"{each}"}}}}' for each in range(many))
    skip = ',"_skipLearn":true' if number % 7 == 3 else ""
    return (
        f'{{"_label_cost":{cost!r},"_label_probability":{first!r},"_label_Action":{chosen + 1},'
        f'"_labelIndex":{chosen}{skip},'
        f'"Timestamp":"2026-01-01T00:00:15.5160000Z","Version":"1","EventId":"{number:036d}",'
        f'"a":[{",".join(str(each + 1) for each in order)}],"c":{{"U":{{"n":{number}}},"_multi":[{actions}]}},'
        f'"p":[{",".join(map(repr, p))}]}}'
    )


def candidate(chosen: int, many: int) -> float:
    """The probability of the policy that is judged: in proportion to the action's place, from 1."""
    return (chosen + 1) / (many * (many + 1) / 2)


LINES = [line(number) for number in range(200)]

"""scikit-learn's estimators in a third of the time: the names of their parameters are read off the constructor's code.

scikit-learn asks `inspect.signature` for them, five times for each tree of a forest, which takes longer than all else
that making one takes; and that is done before the trees go to workers.
"""

import functools
import types


def base(module):
    """Mend ``sklearn.base``."""
    from inspect import CO_VARARGS

    stock = module.BaseEstimator._get_param_names.__func__

    @functools.wraps(stock)
    def get_param_names(cls):
        init = cls.__init__
        # What is in a function's dictionary can give it another signature.
        if type(init) is not types.FunctionType or vars(init) or init.__code__.co_flags & CO_VARARGS:
            return stock(cls)
        code = init.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return sorted([name for name in names if name != "self"])

    module.BaseEstimator._get_param_names = classmethod(get_param_names)

"""Exceptions in words: what the usual ones of Python, NumPy and PyTorch mean to a student."""

import re
from collections.abc import Callable

from normkit.messages import N_

FIT = N_(
    "Shapes fit if, read from the right, their lengths are equal or one of them is 1. A mean taken "
    "with keepdims=True keeps its axis, with length 1."
)
GROWN = N_(
    "An operation in place, such as a *= b, cannot give what stands on its left another shape. "
    "Make a new array: c = a * b."
)
ASSIGNED = N_(
    "What is assigned must fit its place: read from the right, its lengths are those of the place, "
    "or 1."
)
OUTSIDE = N_("The axis {0} does not exist: the array has {1} axes. The last one is axis=-1.")
INSIDE = N_("The axis {2} does not exist: only {0} to {1} do. The last one is axis=-1.")
ARGUMENT = N_(
    "The function has no argument {0}. In NumPy they are called axis, keepdims, ddof; in PyTorch "
    "dim, keepdim, correction."
)
NO_ARGUMENT = N_("The function has no argument {0}: look at the first line of its definition.")
INDEX = N_("The index {0} is too large: along axis {1} there are only {2} entries, counted from 0.")
ONLY_INDEX = N_("The index {0} is too large: axis {1} has a single entry, with the number 0.")
LISTED = N_("An index is too large: the entries are counted from 0.")
SHAPE = N_(
    "An index is too large: .shape has an entry for each axis, counted from 0, and here there are "
    "fewer axes than that."
)
INIT_ARGUMENT = N_(
    "__init__ of {0} has no argument {1}: look at its first line; or perhaps it is missing, or its "
    "name misspelt (two underscores on each side)."
)
INIT_NONE = N_(
    "__init__ of {0} takes a single argument, the layer itself (self): look at its first line; or "
    "perhaps it is missing, or its name misspelt (two underscores on each side)."
)
SUPER = N_("super().__init__() takes no arguments here.")
NO_INIT = N_(
    "The class {0} has no __init__: perhaps that is misspelt (two underscores on each side), or "
    "indented so that it belongs to another method."
)
MADE_FIRST = N_(
    "torch.nn.{0} is the class of a layer: torch.nn.{0}() makes one, which is then called with the "
    "tensor."
)
HOLDER = N_("A {0} only holds layers and cannot be called: call each of its layers in a loop.")
FORWARD = N_(
    "The layer {0} has no forward: that is misspelt, has another name (in Keras it is call), or is "
    "indented so that it belongs to another method."
)
INHERITED = N_(
    "torch.nn.Module has no forward that super() could call: what the layer computes stands in its "
    "own forward."
)
REGISTERED = N_(
    "{0} is of another library: in PyTorch, torch.nn.Parameter(...), set in __init__, makes a "
    "parameter."
)
PARAMETER = N_(
    "A parameter can only be replaced by another: wrap the tensor in torch.nn.Parameter, or change "
    "its values with .data.copy_(...)."
)
LAYER = N_("A layer of PyTorch is needed here, but this is of type {0}.")
WRAPPED = N_("register_parameter takes a parameter: wrap the tensor in torch.nn.Parameter(...).")
BUFFER = N_("A buffer is a tensor, and this is of type {0}: make it one, as in torch.tensor(0).")
BUFFER_NAME = N_("register_buffer takes the name first, in quotes, and then the tensor.")
TWICE = N_(
    "The layer already has an attribute {0}. register_buffer and register_parameter make it "
    "themselves: self.{0} = ... must not stand above them."
)
NO_MODULE = N_(
    "{0} has no {1}, which every layer of PyTorch has: its class must inherit from torch.nn.Module."
)
MADE_OF = N_(
    "torch.nn.Parameter takes a tensor, and this is of type {0}: make it one, as in "
    "torch.tensor([0.5])."
)
LENGTH = N_(
    "torch.Tensor takes lengths, or a list of numbers, but no number of type {0}: write "
    "torch.tensor([0.5]), or torch.full((1,), 0.5)."
)
INSIDE_LAYER = N_(
    "A layer stands where a tensor is needed. Take its tensor, as in linear.weight, or call it, as "
    "in torch.nn.SiLU()(x), which makes the layer first."
)
CHILDREN = N_(
    "Only a Sequential or a ModuleList can be gone through, or indexed by number; every module has "
    "named_children()."
)
EMPTY = N_("The array is empty along axis {0}: look at the slice that it comes from.")
MASK = N_(
    "An array of True and False in square brackets must have the shape of the array, or of its "
    "first axes."
)
INDICES = N_("There are more indices than the array has axes.")
LIST = N_(
    "This is of type {0}, which has no {1}. If you meant what arrays and tensors have: make it an "
    "array first."
)
APPENDING = N_(
    "{1} belongs to lists, and this is of type {0}: start from an empty list, [], or write into "
    "the array by index, as in y[i] = ..."
)
SEQUENCE = N_(
    "A list (a tuple, a string) times n stands n times in a row, and n must be an integer (// "
    "instead of /). To multiply its entries, make it an array first."
)
DICTIONARY = N_(
    "A dictionary has no {0}: its entries are read and written in square brackets, with their key."
)
PLAIN = N_(
    "A plain number has no gradients: .item() and float(...) take it out of the graph. Call "
    "backward() on the tensor."
)
NOTHING = N_(
    "A value is None here. A function without return gives None, and .get of a dictionary for an "
    "unknown key; .grad is None before backward() and after zero_grad()."
)
NAME = N_(
    "The name {0} is not known here: perhaps it is not computed yet, misspelt, not imported, or "
    "belongs to another function."
)
MEANT = N_("The name {0} is not known here: perhaps {1} is meant.")
SELF = N_(
    "self is known only in a method of a class, as its first argument; a function works with what "
    "it is given."
)
UNSET = N_("The variable {0} is used before anything is assigned to it, or only in another branch.")
SHADOWED = N_(
    "Because this line assigns to {0}, {0} is a variable in the whole function, and {0}(...) calls "
    "it: give the result another name."
)
HEAD = N_(
    "The function is called with other arguments than it takes. Keep its first line as the "
    "notebook gives it; in a class, the first argument of a method is self."
)
CALLED = N_(
    "This line calls a function with other arguments than it takes: compare their number, their "
    "order and their names. In a class, the first argument of a method is self."
)
COMBINATION = N_(
    "This line calls a function with other arguments than it takes. In PyTorch the options are "
    "called dim, keepdim, correction; in NumPy axis, keepdims, ddof."
)
RECORDED = N_(
    "A function of NumPy meets a tensor whose gradient is recorded. In a layer, use the function "
    "of PyTorch: detach() would cut the graph. To look at the numbers alone, detach() is right."
)
SLICE = N_("The ends of a slice must be integers: math.ceil gives an int, np.ceil a float.")
AXES = N_("An axis is a number, or a tuple of numbers: tuple(...) makes one of a {0}.")
AXES_INSIDE = N_(
    "A {0} stands where one axis is needed: inside a tuple of axes, * unpacks it, as in "
    "(0, *range(2, x.ndim)); or perhaps this function takes one axis only."
)
LENGTHS = N_(
    "A {0} stands where one length is needed: take an entry of it, as in x.shape[-1], or unpack it "
    "with *, as in (-1, *[1] * n) or x.reshape(*shape, 1)."
)
STRING = N_("A string, in quotes, stands where an integer is needed.")
PACKED = N_("np.{0} takes the arrays as one tuple or list, as in np.{0}((a, b)).")
STRINGS = N_(
    "A string and a number cannot be added: str(...) makes a string of a number, and print takes "
    "several values, separated by commas."
)
RESULT = N_(
    "One argument too many for a function of NumPy, which takes the last for the place of the "
    "result. Perhaps there is a comma in place of a sign."
)
POWER = N_("In Python a power is written x ** 2; the sign ^ means something else.")
DATATYPE = N_("This argument is the dtype: say which you mean by its name, as in keepdims={0}.")
ZEROS = N_("{0} takes the shape as one tuple, as in {0}((2, 3)): what follows it is the dtype.")
BRACKETS = N_("A function stands where its result is needed: the brackets () are missing.")
ATTRIBUTES = N_(
    "{0} has no {1}: perhaps it is misspelt, or belongs to the other library or to layers."
)
OBJECT = N_("{0} is an instance of a layer: hand in its class, without brackets.")
METHOD = N_("A function has no {0}: it must be called first, with brackets ().")
LOOPED = N_(
    "What the loop goes through gives more or fewer values each time than it has names. "
    "for i, row in enumerate(x) counts the rows."
)
UNPACK = N_(
    "There are more or fewer values than names on the left of the equals sign. If they are those "
    "of x.shape: the number of axes may vary, so take only those that you need, as in "
    "x.shape[:2] or x.shape[-1]."
)
PAIRS = N_(
    "Each item is a {0} here, not a pair. named_children() and named_modules() give each layer "
    "with its name, children() and modules() without."
)
TENSOR = N_(
    "A function of PyTorch takes a tensor, and this is of type {0}: in a NumPy task use the "
    "function of NumPy; elsewhere torch.tensor(...) makes it a tensor."
)
LIKE = N_("torch.{0}_like takes a tensor; for a given length there is torch.{0}.")
PARTS = N_(
    "A tuple has no keys in quotes: a part with a name is read with a dot, as in a.n, any other by "
    "its number, as in a[0]."
)
ONE_INDEX = N_("A list has one index at a time: make it an array first.")
JOINED = N_(
    "The sign + joins a {0} to another {0}, not to a number. A tuple of one number is written "
    "(1,), a list [1]; to add a number to each entry, make an array first."
)
UNLIKE = N_(
    "The sign + joins two tuples, or two lists, but not a {0} and a {1}. tuple(...) makes a tuple "
    "of either; (1,) * n is one, and [1] * n a list."
)
CLASSES = N_("The second argument of isinstance is a class, or a tuple of classes.")
EINSUM = N_(
    "The letters of einsum do not fit the arrays: each array has a group of them, a letter for "
    "each of its axes. In place of the axes left over stands ..., also after the arrow."
)
EINSUM_KEPT = N_(
    "NumPy's einsum sums over letters only: ... must stand after the arrow too, and its axes stay. "
    "Sum over them afterwards, with .sum(axis=...)."
)
TRANSPOSED = N_("transpose takes as many axes as the array has, each of them once.")
VIEW = N_("In NumPy, view sees the same memory as another dtype: for another shape, take reshape.")
PLACES = N_(
    "An index is an integer. for v in x gives the values themselves, for i in range(len(x)) their "
    "indices."
)
BUILTIN = N_("Here {1} is the function of Python, which has no {0}: take np.{1}.")
ROUND = N_("round is the function of Python, for one number: for arrays there is np.round.")
UNCHANGING = N_("A {0} cannot be changed: make a list of it, list(...), or a new {0}.")
LENGTHLESS = N_(
    "An object of type {0} has no length: len(...) counts the entries of an array, a list or the "
    "like."
)
COUNTING = N_("An integer is needed here, not an object of type {0}; len(...) counts its entries.")
NO_COUNT = N_("An integer is needed here, such as a number of features, and this is of type {0}.")
MODULE_MET = N_(
    "A module stands where a value is needed: perhaps there is a comma in place of the dot."
)
FIXED = N_(
    "What was handed in cannot be changed: give the new value a name of its own, and return it."
)
COUNTED = N_("A number cannot be gone through: range(n) counts from 0 to n - 1.")
ENTRY = N_("An integer is needed here, not a tuple: take an entry of it, as in x.shape[-1].")
NUMBER = N_(
    "An integer is needed here: take // instead of /, or int(...); or perhaps two arguments have "
    "changed places."
)
OPERANDS = N_("The operation {0} does not work between {1} and {2}.")
ZERO = N_("Something is divided by 0, or 0 is raised to a negative power.")
ENDLESS = N_("The function calls itself, directly or through another, without end.")
WHOLE = N_(
    "An operation in place, such as x -= ..., writes numbers with decimals into an array of "
    "integers. Make a new array, x = x - ..., or start from one of floats."
)
INIT = N_("super().__init__() is missing: it must be the first line of __init__ of every layer.")
UNMADE = N_(
    "{0} has neither a layer nor a method {1}: the one is set in __init__, self.{1} = ..., the "
    "other defined with def."
)
ASKED = N_(
    "{0} has no attribute {1}, for which the check asks: compare the names with those of the "
    "statement."
)
ATTRIBUTE = N_(
    "{0} has no attribute {1}. In your own layer, what it keeps is set in __init__: self.{1} = ..."
)
OTHER = N_("{0} has no attribute {1}: perhaps {2} is meant.")
LACKING = N_("{0} has no attribute {1}: perhaps it is misspelt, or belongs to another object.")
MODULE = N_("{0} has no {1}: it is misspelt, no longer exists, or is of the other library.")
KEYS = N_(
    "The names of the parameters and buffers are not those of the statement: weights {0} cannot be "
    "loaded. Compare list(layer.state_dict())."
)
LOADED = N_(
    "What is loaded and the layer do not have the same names: only one of the two has {0}. With "
    "strict=False, load_state_dict takes over what both have, and leaves the rest as it is."
)
SIZE = N_("{0} has the shape {2}, but weights of shape {1} are to be loaded into it.")
LEAF = N_(
    "A tensor whose gradient is wanted is changed in place. In forward, make a new one, as in "
    "y = x - ... or y = weight * x; when a layer is made, or its weights are updated, a parameter "
    "is set by way of its .data, or with torch.no_grad(): above."
)
NEEDED = N_(
    "An operation in place, such as x -= ..., changes a tensor that the backward pass still needs. "
    "Make a new one: x = x - ..."
)
FAN = N_("Xavier's initialisation needs a matrix; a bias is set to 0.")
ALIGNED = N_(
    "@ and np.dot multiply matrices: the last axis of the first must be as long as the last but "
    "one of the second, or as the only one of a vector. Number by number, * multiplies."
)
AGAIN = N_(
    "backward() goes through the same graph a second time: call it once, or compute the output "
    "anew."
)
STARTED = N_(
    "backward() starts at a single number, such as the loss; from a tensor, hand in the gradient "
    "that arrives there: y.backward(dy)."
)
GRAPH = N_(
    "No gradient can flow back: detach(), .data, no_grad() or a way through NumPy has cut the "
    "graph."
)
PRODUCT = N_("The matrices {0} and {1} cannot be multiplied: the inner lengths differ.")
IN_ORDER = N_(
    "Arguments without a name are matched by position, and gamma comes before eps. Write eps=eps."
)
DTYPES = N_("Tensors of different dtypes meet: convert one of them, with .to(x.dtype).")
MADE_ANEW = N_(
    "What a layer is given and its weights are of different dtypes. A layer belongs in __init__: "
    "one that is made in forward is new at each call, never learnt, and float32."
)
SIZES = N_("A tuple of lengths is needed here, such as (1,); this is of type {0}.")
UNEVEN = N_(
    "Arrays of different shapes make no array: take them apart first, as in a, b = ..., or take "
    "one of them, as in ...[0]."
)
SINGLE = N_("An array with several numbers stands where a single number is needed.")
TRUTH = N_(
    "An array of several numbers, or of True and False, is neither true nor false by itself. Say "
    "what is meant: .all() or .any(); what may be missing is compared with None."
)
RESHAPE = N_("{0} and {1} do not hold equally many numbers: the array cannot be reshaped so.")
SHARED_OUT = N_(
    "{0} numbers cannot be reshaped so: the product of the lengths other than -1 must divide {0}."
)
WIDTH = N_("The norm is made for a last axis of length {0}; that of its input has length {1}.")
SPLIT = N_(
    "The axis that is split cannot be shared out equally: np.split takes axis 0 unless it is told "
    "another one, as in np.split(rows, 3, axis=-1)."
)
INTEGERS = N_("A mean of integers is asked for: convert to a floating-point dtype first.")
CALL = N_(
    "An object of type {0} is called like a function: perhaps an operator, a comma or an index is "
    "missing, or a name is reused."
)
ATTRIBUTE_CALLED = N_("{0} is not a function: it stands without brackets ().")
MODULE_CALLED = N_(
    "A module is called like a function: perhaps a capital is missing, as in torch.nn.Parameter, "
    "or the name of what the module holds."
)
HANDED = N_(
    "{0} cannot be called. Hand in a function or a class, without brackets; the class of a layer "
    "inherits from torch.nn.Module."
)
SUBSCRIPT = N_("Square brackets follow an object of type {0}, which has no entries.")
ASSERTED = N_("An assertion in your own code fails.")
KEY = N_("There is no key {0}. Keys in quotes are strings, others numbers.")
INSTALL = N_("{0} is not installed here: pip install {0}")
PREDICTED = N_("Leave it a dictionary, with a value for each name; this is of type {0}.")
RENAMED = N_("There is no value for {0}, but one for {1}: keep the names that the notebook gives.")

OF_MODULES = "register_(?:buffer|parameter)|(?:load_)?state_dict|(?:named_)?parameters"
AS_INTEGER = "be interpreted as an integer"
NO_AXES = r"(?!.*(?:axis=|dim=|\.(?:mean|sum|var|std)\())"
OF_A_SHAPE = rf"\n{NO_AXES}.*\b(?:reshape|view|expand|zeros|ones|empty|full|broadcast_to)\("
INSIDE_IT = r"(?:element of type|but got|ints, not) (tuple|list|range|torch\.Size)"

# what an exception says, and what that means; below it, in some, the line that raised it, and then
# what is perhaps meant by a name or an attribute that is unknown
COMMON = (
    (r"could not broadcast input array", ASSIGNED),
    (r"non-broadcastable output|output with shape .* the broadcast shape", GROWN),
    (r"could not be broadcast|broadcast shape|must match the size of tensor", FIT),
    (r"axis (-?\d+) is out of bounds for array of dimension (\d+)", OUTSIDE),
    (r"expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)", INSIDE),
    (r"__init__\(\) (?:takes 1 positional|got an unexpected).*\n.*super\(.*__init__\(", SUPER),
    (r"object\.__init__\(\) takes exactly one argument", SUPER),
    (r"(\w+)\(\) takes no arguments\n\n", NO_INIT),
    (r"(\w+)\.__init__\(\) takes 1 positional.*\n.*torch\.nn\.\1\(", MADE_FIRST),
    (r"keyword argument '(ax[ei]s|dims?|keep_?dims?|ddof|correction|unbiased)'", ARGUMENT),
    (r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'\n\n", INIT_ARGUMENT),
    (r"(\w+)\.__init__\(\) takes 1 positional argument but.*\n\n", INIT_NONE),
    (r"unexpected keyword argument '(\w+)'", NO_ARGUMENT),
    (r"index -?\d+ is out of bounds for (?:axis|dimension) (\d+) with size 0", EMPTY),
    (r"index (-?\d+) is out of bounds for (?:axis|dimension) (\d+) with size 1\b", ONLY_INDEX),
    (r"index (-?\d+) is out of bounds for (?:axis|dimension) (\d+) with size (\d+)", INDEX),
    (r"boolean index did not match", MASK),
    (r"too many indices", INDICES),
    (r"tuple index out of range\n.*\.shape\[", SHAPE),
    (r"(?:list|tuple) index out of range|index -?\d+ is out of range", LISTED),
    (r"Module \[((?:Module|Parameter)(?:List|Dict))\] is missing the required", HOLDER),
    (r"Module \[\w+\] is missing the required.*\n.*super\(", INHERITED),
    (r"Module \[(\w+)\] is missing the required", FORWARD),
    (r"'([A-Z]\w*)' object has no attribute 'forward'\n\n", FORWARD),
    (r"cannot assign '[\w.]+' (?:object )?as parameter", PARAMETER),
    (r"to parameter '\w+' \(torch\.nn\.Parameter or None required", WRAPPED),
    (r"cannot assign '([\w.]+)' (?:object )?(?:to|as) buffer", BUFFER),
    (r"buffer name should be a string", BUFFER_NAME),
    (r"attribute '(\w+)' already exists", TWICE),
    (r"'([\w.]+)' object has no attribute 'detach'\n.*Parameter\(", MADE_OF),
    (r"new\(\): data must be a sequence \(got (float|int)\)", LENGTH),
    (r"'(?:\w+)' object has no attribute '\w+'\n.*\ntorch\.Tensor$", INSIDE_LAYER),
    (r"(?:'|module ')([\w.]+)'(?: object)? has no attribute '(\w+)'\n.*\n(.+)", OTHER),
    (r"([\w.]+) is not a Module subclass", LAYER),
    (r"'float' object has no attribute 'backward'", PLAIN),
    (r"'dict' object has no attribute '(\w+)'", DICTIONARY),
    (r"'(list|tuple|int|float|str)' object has no attribute '(\w+)'", LIST),
    (r"'(NoneType)' object is not callable\n\n", CALL),
    (r"'(\w+)' object is not a dictionary of values", PREDICTED),
    (r"no value for (.+?), but one for (.+)", RENAMED),
    (r"NoneType", NOTHING),
    (r"name '(\w+)' is not defined\n.*\n(.+)", MEANT),
    (r"name 'self' is not defined", SELF),
    (r"name '(\w+)' is not defined", NAME),
    (r"local variable '(\w+)'.*\n\1 = (?:.*[^\w.])?\1\(", SHADOWED),
    (r"local variable '(\w+)'", UNSET),
    (r"positional arguments? but|required positional arguments?|multiple values for", HEAD),
    (r"takes exactly \d+ arguments? \(", HEAD),
    (r"view\(\) received .* - got \((tuple|list|range|torch\.Size),.*\n", LENGTHS),
    (r"invalid combination of arguments - got \((numpy\.ndarray)", TENSOR),
    (r"received an invalid combination of arguments", COMBINATION),
    (r"Can't call numpy\(\) on Tensor that requires grad", RECORDED),
    (r"slice indices must be integers", SLICE),
    (rf"'(list|range|tuple)' object cannot {AS_INTEGER}{OF_A_SHAPE}", LENGTHS),
    (rf"argument '(?:size|shape)' .*{INSIDE_IT}", LENGTHS),
    (rf"argument 'dim' .*{INSIDE_IT}", AXES_INSIDE),
    (rf"'str' object cannot {AS_INTEGER}", STRING),
    (rf"'(list|range|set|generator)' object cannot {AS_INTEGER}", AXES),
    (rf"'(tuple)' object cannot {AS_INTEGER}\n.*(?:axis|dim)=", AXES_INSIDE),
    (rf"'(?:\w*function\w*|method)' object cannot {AS_INTEGER}", BRACKETS),
    (r"'(?:\w*function\w*|method)' (?:object is not iterable|has no len)", BRACKETS),
    (r"'bitwise_xor' not supported|operand type\(s\) for \^", POWER),
    (r"Cannot interpret '(True|False)' as a data type", DATATYPE),
    (r"Cannot interpret '\d+' as a data type\n.*\b((?:np|numpy)\.(?:zeros|ones|empty))\(", ZEROS),
    (r"operand type.*'(?:[\w.]*function\w*|method|[\w.]*Dispatcher|numpy.ufunc)'", BRACKETS),
    (r"must be Tensor, not \w*(?:function|method)", BRACKETS),
    (r"operand type\(s\) for \+: '(?:int|float)' and '(list|tuple)'", JOINED),
    (r"operand type\(s\) for \+: '(range|list|tuple)' and '(range|list|tuple)'", UNLIKE),
    (r"unsupported operand type\(s\) for .*'module'", MODULE_MET),
    (r"unsupported operand type\(s\) for (.+?): '([\w.]+)' and '([\w.]+)'", OPERANDS),
    (r"can't multiply sequence by non-int", SEQUENCE),
    (r"^ZeroDivisionError", ZERO),
    (r"^RecursionError", ENDLESS),
    (r"Cannot cast ufunc|can't be cast to the desired output type", WHOLE),
    (r"Module\.__init__\(\) call|no attribute '_(?:buffers|parameters|modules|\w+_hooks)'", INIT),
    (r"module '([\w.]+)' has no attribute '(\w+)'", MODULE),
    (r"'(numpy\.ndarray|Tensor)' object has no attribute '(append|extend|insert|pop)'", APPENDING),
    (r"'(numpy\.ndarray|Tensor)' object has no attribute '(\w+)'", ATTRIBUTES),
    (r"'(?:function|method|[\w.]+Dispatcher)' object has no attribute '(\w+)'", METHOD),
    (r"'(\w+)' object is not a class", OBJECT),
    (r"'[A-Z]\w*' (?:object is not (?:iterable|subscriptable)|has no len)", CHILDREN),
    (r"'(?:int|float)' object is not iterable", COUNTED),
    (r"cannot unpack non-iterable ([A-Z]\w*) object\n.*\bfor ", PAIRS),
    (r"(?:values to unpack|cannot unpack non-iterable).*\n(?:.*\W)?for [^=]*,[^=]* in ", LOOPED),
    (r"values to unpack|cannot unpack non-iterable", UNPACK),
    (r"(\w+)_like\(\): .*must be Tensor, not", LIKE),
    (r"must be Tensor, not [A-Z]\w*", INSIDE_LAYER),
    (r"(?:must be|expected) (?:a )?Tensor.*, (?:but got|not) (?:type )?([\w.]+)", TENSOR),
    (r"only integers, slices|only integer tensors|arrays used as indices must be", PLACES),
    (r"isinstance\(\) arg 2 must be", CLASSES),
    (r"output has more dimensions than subscripts given in einstein sum", EINSUM_KEPT),
    (r"einstein sum|^ValueError: einsum", EINSUM),
    (r"axes don't match array", TRANSPOSED),
    (r": (?:Tuple must|Type must be|Cannot interpret '-?\d+' as a).*\n.*\.view\(", VIEW),
    (r"'(axis|keepdims)' is an invalid keyword argument for (\w+)\(\)", BUILTIN),
    (r"doesn't define __round__", ROUND),
    (r"'(tuple|str)' object does not support item assignment", UNCHANGING),
    (r"can't set attribute|has no setter|readonly attribute", FIXED),
    (r"list indices must be integers or slices, not tuple", ONE_INDEX),
    (r"tuple indices must be integers or slices, not str", PARTS),
    (r"can only concatenate str|ufunc 'add' did not contain a loop .*<U", STRINGS),
    (r"return arrays must be of ArrayType", RESULT),
    (r"can only concatenate (list|tuple) \(not \"(?:int|float)\"", JOINED),
    (r"can only concatenate (list|tuple) \(not \"([\w.]+)\"", UNLIKE),
    (r"float\d*' object cannot be interpreted as an integer|integer.*, got", NUMBER),
    (r"'tuple' object cannot be interpreted as an integer", ENTRY),
    (rf"'(\w*(?:Norm\w*|Linear))' object cannot {AS_INTEGER}", NO_COUNT),
    (rf"'(\w+)' object cannot {AS_INTEGER}", COUNTING),
    (r"object of type '([\w.]+)' has no len", LENGTHLESS),
    (rf"'([A-Z]\w*)' object has no attribute '({OF_MODULES})'", NO_MODULE),
    (r"object has no attribute '(add_weight|add_variable|param)'\n.*\bself\.\1\(", REGISTERED),
    (r"'(\w+)' object has no attribute '(\w+)'\n.*\bself\.\2\(", UNMADE),
    (r"'(\w+)' object has no attribute '(\w+)'\n.*\bself\.\2\b", ATTRIBUTE),
    (r"'([A-Z]\w*)' object has no attribute '(\w+)'\n\n", ASKED),
    (r"'(\w+)' object has no attribute '(\w+)'", LACKING),
    (r"(?:Missing|Unexpected) key\(s\) in state_dict: (.+?)\.(?: |$)", KEYS),
    (r"size mismatch for ([\w.]+): .*shape (.+?) from .*model is (.+?)\.(?: |$)", SIZE),
    (r"leaf Variable", LEAF),
    (r"modified by an inplace operation", NEEDED),
    (r"backward through the graph a second time", AGAIN),
    (r"created only for scalar outputs", STARTED),
    (r"does not require grad and does not have a grad_fn", GRAPH),
    (r"shapes cannot be multiplied \((\S+) and (\S+)\)", PRODUCT),
    (r"not aligned|matmul: Input operand|size mismatch, got input", ALIGNED),
    (r"Fan in and fan out can not be computed", FAN),
    (r"have the same dtype, but got Double and Float\n.*\bself\.\w+\(", MADE_ANEW),
    (r"expected scalar type|must have the same dtype|same dtype, but got", DTYPES),
    (r"mixed dtype", MADE_ANEW),
    (r"argument 'size' .*must be tuple of ints, not ([\w.]+)", SIZES),
    (r"array split does not result in an equal division", SPLIT),
    (r"inhomogeneous shape", UNEVEN),
    (r"only integer scalar arrays.*\n.*\bnp\.(concatenate|[vh]?stack)\(", PACKED),
    (r"be converted to (?:a )?(?:Python )?[Ss]calar|setting an array element", SINGLE),
    (r"Boolean value of Tensor.*\n(?!if |while ).*torch\.nn\.([A-Z]\w*)\(", MADE_FIRST),
    (r"truth value of an array|Boolean value of Tensor", TRUTH),
    (r"cannot reshape array of size (\d+) into shape .*(?:newaxis|-1)", SHARED_OUT),
    (r"shape '.*-1.*' is invalid for input of size (\d+)", SHARED_OUT),
    (r"normalized_shape=\[(\d+)\], expected .*size ?\[(?:.*\D)?(\d+)\]", WIDTH),
    (r"cannot reshape array of size (\d+) into shape (.+)", RESHAPE),
    (r"shape '(.+?)' is invalid for input of size (\d+)", RESHAPE),
    (r"could not infer output dtype|must be either a floating point", INTEGERS),
    (r"'module' object is not callable", MODULE_CALLED),
    (r"object is not callable\n.*(\.(?:shape|ndim|dtype|T))\(", ATTRIBUTE_CALLED),
    (r"'Tensor' object is not callable\n(?!.*(?:jax|func|autograd)).*(\.grad)\(", ATTRIBUTE_CALLED),
    (r"'([\w.]+)' object is not callable", CALL),
    (r"'([\w.]+)' object is not subscriptable", SUBSCRIPT),
    (r"^AssertionError", ASSERTED),
    (r"^KeyError: (.+)", KEY),
    (r"No module named '(\w+)", INSTALL),
    (r"^TypeError: gamma must be an array, not a float.*\n.*\beps\b", IN_ORDER),
)


OWN = {HEAD: CALLED, KEYS: LOADED}  # what it means in a line of the answer
HANDED_IN = {CALL: HANDED}  # and where the answer is used

# of a call, not of what is called with: no array that misfits raises these
CALLS = {
    ARGUMENT,
    NO_ARGUMENT,
    HEAD,
    COMBINATION,
    RECORDED,
    SLICE,
    DATATYPE,
    BRACKETS,
    CALL,
    MODULE_CALLED,
    OBJECT,
}


def kind(error: str) -> str:
    """What exceptions have in common that may come of the same fault.

    Where one library, or one version of it, raises this for an array that misfits, another raises
    that.
    """
    return found if (found := _sentence(error)) in CALLS else "misfit"


def refuses(error: str) -> bool:
    """Whether a ValueError is raised on purpose, or as good as: it is of no array that misfits."""
    return error.startswith("ValueError") and _sentence(error) in ("", SPLIT)


def _sentence(error: str) -> str:
    return next((sentence for pattern, sentence in COMMON if re.search(pattern, error)), "")


def meaning(error: str, translate: Callable[[str], str], line: str = "", meant: str = "") -> str:
    """What an exception, given as `Name: what it says`, means; nothing if it is not a usual one.

    line: that of the answer which raised it, if one did. meant: what is perhaps meant there.
    """
    below = "\n".join([error, line, meant])
    for pattern, sentence in COMMON:
        if found := re.search(pattern, below if r"\n" in pattern else error):
            sentence = (OWN if line else HANDED_IN).get(sentence, sentence)
            return translate(sentence).format(*found.groups())
    return ""

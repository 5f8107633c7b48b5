import glob
import sys, types, time, traceback, importlib, random, copy, io, contextlib
class _Any:
    def __init__(self,*a,**k): pass
    def __class_getitem__(cls,i): return cls
    def __getattr__(self,n): return _Any()
    def __call__(self,*a,**k): return _Any()
    def __or__(self,o): return _Any()
    def __ror__(self,o): return _Any()
class _Stub(types.ModuleType):
    __path__=[]
    def __getattr__(self,n):
        if n.startswith('__'): raise AttributeError(n)
        return type(n,(_Any,),{}) if n[0].isupper() else _Any()
class Finder:
    def find_spec(self,name,path=None,target=None):
        if name.split('.')[0] in STUBS:
            import importlib.machinery as m
            return m.ModuleSpec(name,self,is_package=True)
    def create_module(self,spec): return _Stub(spec.name)
    def exec_module(self,m): pass
STUBS={'torch','numpy','cloudpickle','psutil','safetensors'}
sys.meta_path.insert(0,Finder())
# msgspec: a small stand-in for Struct as a dataclass
ms=types.ModuleType('msgspec'); 
import dataclasses
class _Meta(type):
    def __new__(m,name,bases,ns,frozen=False,**k):
        c=super().__new__(m,name,bases,ns)
        if bases: c=dataclasses.dataclass(frozen=False)(c)
        return c
    def __init__(c,*a,**k): super().__init__(*a)
class Struct(metaclass=_Meta): pass
ms.Struct=Struct; ms.json=types.ModuleType('msgspec.json'); ms.Meta=_Any; ms.msgpack=types.ModuleType('msgspec.msgpack')
ms.__getattr__=lambda n: type(n,(_Any,),{}) if n[0].isupper() else _Any()
sys.modules['msgspec']=ms; sys.modules['msgspec.json']=ms.json; sys.modules['msgspec.msgpack']=ms.msgpack
ms.json.__getattr__=ms.__getattr__; ms.msgpack.__getattr__=ms.__getattr__


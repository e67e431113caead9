/* libFuzzer's side: each input goes to the function of tests/fuzz/targets.py that
   QUIVER_FAST_FUZZ names. An exception there is a finding, as a crash is.

   Only our modules and the engine are compiled with coverage, so that it leads the fuzzer
   into them and not into the interpreter. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

static PyObject *target;

static void fail(void) {
  PyErr_Print();
  abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void) argc;
  (void) argv;
  Py_InitializeEx(0);
  PyObject *module = PyImport_ImportModule("fuzz.targets");
  if (module == NULL) fail();
  target = PyObject_CallMethod(module, "target", "s", getenv("QUIVER_FAST_FUZZ"));
  if (target == NULL) fail();
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  PyObject *result = PyObject_CallFunction(target, "y#", (const char *) data, (Py_ssize_t) size);
  if (result == NULL) fail();
  Py_DECREF(result);
  return 0;
}

/* Serves an export without Python: loads a SavedModel with the TensorFlow C API and classifies texts.
 *
 *   serve [-l OPERATIONS.so]... MODEL INPUT LABEL PROBABILITIES TEXT...
 *
 * OPERATIONS.so is a library of operations that TensorFlow does not have itself: those of TensorFlow Text. INPUT, LABEL
 * and PROBABILITIES are the tensors of the signature, as "serving_default_text:0" (`saved_model_cli show` lists them).
 * Prints a line for each text: its label, a tab, and the probabilities with blanks between them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

static void check(TF_Status* status, const char* action) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "serve: cannot %s: %s\n", action, TF_Message(status));
  if (strstr(TF_Message(status), "Op type not registered")) {
    fprintf(stderr, "serve: the model needs the operations of TensorFlow Text: pass their libraries with -l\n");
  }
  exit(1);
}

/* The output that a name like "operation:1" stands for. */
static TF_Output tensor(TF_Graph* graph, const char* name) {
  const char* colon = strrchr(name, ':');
  size_t length = colon ? (size_t)(colon - name) : strlen(name);
  char* operation = strndup(name, length);
  TF_Output output = {TF_GraphOperationByName(graph, operation), colon ? atoi(colon + 1) : 0};
  free(operation);
  if (output.oper == NULL) {
    fprintf(stderr, "serve: the model has no tensor %s\n", name);
    exit(1);
  }
  return output;
}

/* A tensor of strings, [count]. */
static TF_Tensor* strings(char** texts, int64_t count) {
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, &count, 1, (size_t)count * sizeof(TF_TString));
  TF_TString* values = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    TF_TString_Init(&values[i]);
    TF_TString_Copy(&values[i], texts[i], strlen(texts[i]));
  }
  return tensor;
}

int main(int argc, char** argv) {
  TF_Status* status = TF_NewStatus();
  int next = 1;
  for (; next + 1 < argc && strcmp(argv[next], "-l") == 0; next += 2) {
    TF_LoadLibrary(argv[next + 1], status);
    check(status, "load the library");
  }
  if (argc - next < 5) {
    fprintf(stderr, "usage: serve [-l OPERATIONS.so]... MODEL INPUT LABEL PROBABILITIES TEXT...\n");
    return 2;
  }

  const char* tags[] = {"serve"};
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[next], tags, 1, graph, NULL, status);
  check(status, "load the model");

  char** texts = argv + next + 4;
  int64_t count = argc - next - 4;
  TF_Output input = tensor(graph, argv[next + 1]);
  TF_Output outputs[] = {tensor(graph, argv[next + 2]), tensor(graph, argv[next + 3])};
  TF_Tensor* value = strings(texts, count);
  TF_Tensor* values[2];
  TF_SessionRun(session, NULL, &input, &value, 1, outputs, values, 2, NULL, 0, NULL, status);
  check(status, "run the model");

  const TF_TString* labels = TF_TensorData(values[0]);
  const float* probabilities = TF_TensorData(values[1]);
  int64_t classes = TF_Dim(values[1], 1);
  for (int64_t i = 0; i < count; i++) {
    printf("%.*s\t", (int)TF_TString_GetSize(&labels[i]), TF_TString_GetDataPointer(&labels[i]));
    for (int64_t j = 0; j < classes; j++) {
      printf("%s%.9g", j ? " " : "", probabilities[i * classes + j]);
    }
    printf("\n");
  }

  TF_DeleteTensor(value);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}

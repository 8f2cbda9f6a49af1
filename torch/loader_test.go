package torch_test

const childVariable = "GOTRAINER_TEST_CHILD"

// Package imagetest has the tests of transformers' ResNet, whose golden files were made on another
// CPU than those of package resnet, and of image models with adapters.
package imagetest

// Package container tests the file Containerfile, which builds the container image of servers. One test
// makes the root directory of the image by hand. It starts the command of the image as the image's
// user, in a separate network namespace. Another test builds the image with Docker.
package container

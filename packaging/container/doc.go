// Package container tests the image file of servers. The test makes the root of the image by hand, as a
// builder of images would, and starts its command as its user, in a network namespace of its own.
package container

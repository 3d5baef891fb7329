//go:build !race

package supervise_test

const raced = false

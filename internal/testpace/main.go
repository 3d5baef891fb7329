package testpace

import (
	"flag"
	"testing"
)

// waiting is the number of parallel tests of a package whose parallel tests wait.
const waiting = "12"

// Main runs the tests of a package whose parallel tests mostly wait for periods of the product, and returns the exit code.
// Twelve of them run at a time. By default, there would be as many as processors. The flag -parallel takes precedence.
func Main(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", waiting); err != nil {
			panic(err) // the flag does not exist
		}
	}
	return m.Run()
}

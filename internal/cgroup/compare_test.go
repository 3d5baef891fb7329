package cgroup

import (
	"math"
	"testing"
)

func TestWithin(t *testing.T) {
	allowed := map[int]bool{0: true, 1: true, 5: true}
	for list, want := range map[string]bool{"0-1": true, "0-1,5": true, "5": true, "0-5": false, "2": false, "": false, "x": false, "0-99999999": false, "1-0": true} {
		if got := within(list, allowed); got != want {
			t.Errorf("within(%q) = %t, want %t", list, got, want)
		}
	}
}

func TestAmount(t *testing.T) {
	for text, want := range map[string]int64{"max": math.MaxInt64, "-1": math.MaxInt64, "42": 42} {
		if got, ok := amount(text); !ok || got != want {
			t.Errorf("amount(%q) = %d, %t, want %d", text, got, ok, want)
		}
	}
	if _, ok := amount(""); ok {
		t.Error("a file that could not be read is a limit")
	}
}

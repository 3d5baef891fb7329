package cgroup

import (
	"math"
	"testing"
)

func TestWithin(t *testing.T) {
	allowed := map[int]bool{0: true, 1: true, 5: true}
	for list, want := range map[string]int{"0-1": 2, "0-1,5": 3, "5": 1, "0-5": -1, "2": -1, "": -1, "x": -1, "0-99999999": -1, "1-0": 0} {
		if got, ok := within(list, allowed); ok != (want >= 0) || ok && got != want {
			t.Errorf("within(%q) = %d, %t, want %d", list, got, ok, want)
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

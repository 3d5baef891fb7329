package wake_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/wake"
)

func TestSignal_CountsOnce(t *testing.T) {
	s := wake.New()
	s.Send()
	s.Send()
	<-s
	select {
	case <-s:
		t.Error("a second receive succeeds after two sends, want one")
	default:
	}
	s.Send()
	<-s
}

func TestSignal_Clear(t *testing.T) {
	s := wake.New()
	s.Clear()
	s.Send()
	s.Clear()
	select {
	case <-s:
		t.Error("a receive succeeds after Clear, want none")
	default:
	}
}

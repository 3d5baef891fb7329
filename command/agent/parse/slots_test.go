package parse

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Two texts are parsed at a time. The third caller waits maxWait for one of them.
func TestTwoAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New()
		for range maxAtOnce {
			if err := p.take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		var coded *apierror.Coded
		if _, err := p.Parse(t.Context(), &api.JobsParseRequest{JobHCL: "job"}); !errors.As(err, &coded) ||
			coded.Code != http.StatusTooManyRequests {
			t.Errorf("Parse() while %d run = %v, want 429", maxAtOnce, err)
		}
		if waited := time.Since(begin); waited != maxWait {
			t.Errorf("Parse() waited %s, want %s", waited, maxWait)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := p.Parse(gone, &api.JobsParseRequest{JobHCL: "job"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Parse() of a caller that left = %v", err)
		}
		taken := make(chan error, 1)
		go func() { taken <- p.take(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-taken:
			t.Errorf("a third caller did not wait: %v", err)
		default:
		}
		<-p.slots // one of them is done
		if err := <-taken; err != nil {
			t.Errorf("the next caller = %v", err)
		}
	})
}

// A process holds its slot until it ends: the end of the context after that changes nothing.
func TestSlot_Reserved(t *testing.T) {
	p := &Parser{slots: make(chan struct{})} // the test sees each take, and each release
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Parse(ctx, &api.JobsParseRequest{JobHCL: "job \"a\" {"})
		ended <- err
	}()
	<-p.slots
	p.slots <- struct{}{}
	leave()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "input.hcl") {
		t.Errorf("Parse() = %v, want an error of the text", err)
	}
}

// A process releases its slot when it exits, whatever its result.
func TestSlotIsGivenBack(t *testing.T) {
	p := New()
	if _, err := p.Parse(t.Context(), &api.JobsParseRequest{JobHCL: "job \"a\" {"}); err == nil ||
		!strings.Contains(err.Error(), "input.hcl") {
		t.Errorf("Parse() = %v, want an error of the text", err)
	}
	if n := len(p.slots); n != 0 {
		t.Errorf("%d slots are held after the end", n)
	}
}

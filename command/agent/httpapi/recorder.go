package httpapi

import (
	"bufio"
	"errors"
	"net"
	"net/http"
)

// recorder notes how a request ends, and puts that on record. When that is enforced
// it holds the reply back until it is.
//
//	holding ──end, or longer than maxHeld──▶ on record ──▶ sent
//	   │                                         └─failed──▶ refused
//	   └──flushed, or taken over──▶ streaming ──end──▶ on record
type recorder struct {
	http.ResponseWriter
	namespace string                            // that the request is about, once it is known
	holds     bool                              // the reply is held back
	done      func(code int, text string) error // puts the end on record
	told      func(token string) error          // puts on record whose token came late
	refuse    func(error)                       // answers in place of the handler

	code  int    // 0 until the handler told one
	text  string // of an error
	held  []byte
	ended bool
	lost  error // the end is not on record, and the reply not sent
}

// noteNamespace tells the record which namespace a request turned out to be about.
func noteNamespace(w http.ResponseWriter, namespace string) {
	if rec, ok := w.(*recorder); ok && namespace != "" {
		rec.namespace = namespace
	}
}

// noteError tells the record what error the caller is answered. No other body is
// looked at: that of a conflict is a variable with its values.
func noteError(w http.ResponseWriter, text string) {
	if rec, ok := w.(*recorder); ok {
		rec.text = text
	}
}

// noteEnd tells the record how something ended that was answered by an upgrade.
func noteEnd(w http.ResponseWriter, err error) {
	if rec, ok := w.(*recorder); ok && err != nil && !errors.Is(err, errLeft) {
		rec.code, rec.text = status(err), err.Error()
	}
}

// noteCaller tells the record who calls that showed the token after the request. The
// error is that of the record, when it must be whole.
func noteCaller(w http.ResponseWriter, token string) error {
	if rec, ok := w.(*recorder); ok && token != "" {
		return rec.told(token)
	}
	return nil
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	switch {
	case code < http.StatusOK && code != http.StatusSwitchingProtocols: // says nothing of the reply itself
		r.ResponseWriter.WriteHeader(code)
	case r.code == 0:
		if r.code = code; !r.holds {
			r.ResponseWriter.WriteHeader(code)
		}
	}
}

// Write implements io.Writer.
func (r *recorder) Write(p []byte) (int, error) {
	if r.lost != nil {
		return 0, r.lost
	}
	if r.code == 0 {
		r.code = http.StatusOK
	}
	if !r.holds {
		return r.ResponseWriter.Write(p)
	}
	if len(r.held)+len(p) <= maxHeld {
		r.held = append(r.held, p...)
		return len(p), nil
	}
	if r.record(); r.lost != nil {
		return 0, r.lost
	}
	r.send()
	return r.ResponseWriter.Write(p)
}

// record puts the end on record, once; a reply that is still held back is refused
// when that fails.
func (r *recorder) record() {
	if r.ended {
		return
	}
	r.ended = true
	if r.code == 0 {
		r.code = http.StatusOK
	}
	if err := r.done(r.code, r.text); err != nil && r.holds {
		r.lost = err
		r.refuse(err)
	}
}

// send gives out what was held back.
func (r *recorder) send() {
	r.holds = false
	if r.code != 0 {
		r.ResponseWriter.WriteHeader(r.code)
	}
	if len(r.held) > 0 {
		r.ResponseWriter.Write(r.held) //nolint:errcheck // the reader is gone when this fails
	}
	r.held = nil
}

// end completes record and reply. A handler that is not whole has panicked.
func (r *recorder) end(whole bool) {
	if !whole {
		if r.holds || r.code == 0 {
			r.code, r.text, r.held = http.StatusInternalServerError, "internal error", nil
		}
		r.record()
		return // the connection is closed
	}
	r.record()
	if r.holds && r.lost == nil {
		r.send()
	}
}

// FlushError sends what was written so far; http.ResponseController calls it.
func (r *recorder) FlushError() error {
	if r.lost != nil {
		return r.lost
	}
	if r.holds {
		r.send()
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (r *recorder) Flush() {
	r.FlushError() //nolint:errcheck // the reader is gone when this fails
}

// Hijack implements http.Hijacker: the reply is the handler's from now on.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.lost != nil {
		return nil, nil, r.lost
	}
	if r.holds && r.code != 0 {
		r.ResponseWriter.WriteHeader(r.code) // that of the upgrade, which is the reply
	}
	r.holds = false
	if r.code == 0 {
		r.code = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

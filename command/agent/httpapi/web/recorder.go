package web

import (
	"bufio"
	"net"
	"net/http"
)

// recorder is an http.ResponseWriter that records the result of a request. If the audit log is
// enforced, the reply is held back until the result is recorded.
//
//	holding ──end, or longer than maxHeld──▶ on record ──▶ sent
//	   │                                         └─failed──▶ refused
//	   └──flushed, or taken over──▶ streaming ──end──▶ on record
type recorder struct {
	http.ResponseWriter
	namespace string                            // namespace of the request, once it is known
	holds     bool                              // the reply is held back
	done      func(code int, text string) error // records the result
	onToken   func(token string) error          // records the caller of a token that arrived after the request
	refuse    func(error)                       // writes an error in place of the reply

	code     int    // 0 until the handler sets a status
	text     string // error text
	buffered []byte
	ended    bool
	lost     error // recording failed, and the reply was not sent
}

// NoteNamespace sets the namespace of the request in its audit record.
func (r *Request) NoteNamespace(namespace string) {
	if rec, ok := r.Reply.(*recorder); ok && namespace != "" {
		rec.namespace = namespace
	}
}

// noteError sets the error text in the audit record. Other bodies are not recorded: the body of a
// conflict contains the values of a variable.
func noteError(w http.ResponseWriter, text string) {
	if rec, ok := w.(*recorder); ok {
		rec.text = text
	}
}

// NoteError sets the error text of a reply that the handler has written.
func (r *Request) NoteError(text string) { noteError(r.Reply, text) }

// NoteEnd sets the error of a request that was upgraded to another protocol.
func (r *Request) NoteEnd(err error) {
	if rec, ok := r.Reply.(*recorder); ok {
		rec.code, rec.text = status(err), err.Error()
	}
}

// NoteCaller records the caller of a token that arrived after the request. It returns an error if
// recording fails and the audit log is enforced.
func (r *Request) NoteCaller(token string) error {
	if rec, ok := r.Reply.(*recorder); ok && token != "" {
		return rec.onToken(token)
	}
	return nil
}

// Unwrap returns the underlying writer for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	switch {
	case code < http.StatusOK && code != http.StatusSwitchingProtocols: // an informational status is not the reply
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
	if len(r.buffered)+len(p) <= maxHeld {
		r.buffered = append(r.buffered, p...)
		return len(p), nil
	}
	if r.record(); r.lost != nil {
		return 0, r.lost
	}
	r.send()
	return r.ResponseWriter.Write(p)
}

// record records the result once. If that fails while the reply is held back, the reply is replaced
// by an error.
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

// send writes the reply that was held back.
func (r *recorder) send() {
	r.holds = false
	if r.code != 0 {
		r.ResponseWriter.WriteHeader(r.code)
	}
	if len(r.buffered) > 0 {
		r.ResponseWriter.Write(r.buffered) //nolint:errcheck // the reader is gone when this fails
	}
	r.buffered = nil
}

// end completes the record and the reply. If completed is false, the handler has panicked.
func (r *recorder) end(completed bool) {
	if !completed {
		if r.holds || r.code == 0 {
			r.code, r.text, r.buffered = http.StatusInternalServerError, "internal error", nil
		}
		r.record()
		return // net/http closes the connection
	}
	r.record()
	if r.holds && r.lost == nil {
		r.send()
	}
}

// FlushError sends the data written so far. http.ResponseController calls it.
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

// Hijack implements http.Hijacker. The handler writes the reply from then on.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.lost != nil {
		return nil, nil, r.lost
	}
	if r.holds && r.code != 0 {
		r.ResponseWriter.WriteHeader(r.code) // the status of the upgrade
	}
	r.holds = false
	if r.code == 0 {
		r.code = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(r.ResponseWriter).Hijack()
}

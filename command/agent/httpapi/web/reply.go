package web

import (
	"net/http"
	"reflect"
	"strconv"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// prettyHandle encodes indented JSON.
var prettyHandle = codec.NewJSONHandle(4)

// writeJSON writes body as JSON. If body is nil, the reply is empty.
func writeJSON(w http.ResponseWriter, r *Request, body any) {
	if body == nil {
		return
	}
	write := func(text []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(text) // the reader is gone when this fails
	}
	var err error
	if rows := listRows(body); rows != nil && !r.Pretty() {
		err = r.server.lists.withJSON(rows, write)
	} else if r.Pretty() {
		var text []byte
		if text, err = EncodeJSON(body, true); err == nil {
			write(text)
		}
	} else {
		err = codec.WithJSON(orEmptyList(body), write)
	}
	if err != nil {
		writeError(w, err)
	}
}

// Pretty reports whether the caller asked for indented JSON.
func (r *Request) Pretty() bool {
	return r.Query.Has("pretty") && r.Query.Get("pretty") != "0"
}

// EncodeJSON encodes the body of a reply.
func EncodeJSON(body any, pretty bool) ([]byte, error) {
	if pretty {
		var out []byte
		err := msgpack.NewEncoderBytes(&out, prettyHandle).Encode(orEmptyList(body))
		return append(out, '\n'), err
	}
	return codec.EncodeJSON(orEmptyList(body))
}

// orEmptyList replaces a nil slice at the root, so that it is encoded as [].
func orEmptyList(body any) any {
	if v := reflect.ValueOf(body); v.Kind() == reflect.Slice && v.IsNil() {
		return []struct{}{}
	}
	return body
}

// setReadMeta sets the headers of a read.
func setReadMeta(h http.Header, m *message.QueryMeta) {
	h.Set("X-Nomad-Index", strconv.FormatUint(m.Index, 10))
	h.Set("X-Nomad-KnownLeader", strconv.FormatBool(m.KnownLeader))
	h.Set("X-Nomad-LastContact", strconv.FormatInt(int64(m.LastContact/time.Millisecond), 10))
	if m.NextToken != "" {
		h.Set("X-Nomad-NextToken", PageToken(m.NextToken))
	}
}

// writeError writes err as plain text with its HTTP status.
func writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	noteError(w, err.Error())
	w.WriteHeader(status(err))
	w.Write([]byte(err.Error())) // the reader is gone when this fails
}

// status returns the HTTP status of an error.
func status(err error) int { return apierror.HTTPStatus(err) }

package logs

import (
	"encoding/json"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// maxFrame is the maximum data size of a frame.
const maxFrame = 64 << 10

// File events of a frame.
const (
	eventDeleted   = "file deleted"
	eventTruncated = "file truncated"
)

// Sink receives the payloads of a stream, in order. An error ends the stream. The bytes are
// valid only until it returns.
type Sink func(payload []byte) error

// Framer encodes frames as payloads.
type Framer func(f message.StreamFrame) ([]byte, error)

// Plain returns the data of a frame and drops everything else.
func Plain(f message.StreamFrame) ([]byte, error) { return f.Data, nil }

// JSON encodes each frame as an object without its zero fields. The empty object, {}, is the
// heartbeat.
func JSON(f message.StreamFrame) ([]byte, error) {
	b, err := json.Marshal(jsonFrame(f))
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	return b, nil
}

// jsonFrame is message.StreamFrame with the field names and omitted zero values of its JSON.
type jsonFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// Output is the destination of a stream: each frame is encoded, then sent.
type Output struct {
	Frame Framer
	Sink  Sink
}

func (o Output) send(f message.StreamFrame) error {
	b, err := o.Frame(f)
	if err != nil || len(b) == 0 {
		return err
	}
	return o.Sink(b)
}

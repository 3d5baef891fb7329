package logs

import (
	"encoding/json"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// maxFrame is the most data in one frame.
const maxFrame = 64 << 10

// What a frame tells of its file.
const (
	eventDeleted   = "file deleted"
	eventTruncated = "file truncated"
)

// Sink takes the payloads of a stream, in order. An error of it ends the stream.
// The bytes are its own only until it returns.
type Sink func(payload []byte) error

// Framer turns frames into payloads.
type Framer func(f nomad.StreamFrame) ([]byte, error)

// Plain passes data on as it is; what is not data is left out.
func Plain(f nomad.StreamFrame) ([]byte, error) { return f.Data, nil }

// JSON writes each frame as an object without its zero fields; the empty one, {},
// is the heartbeat.
func JSON(f nomad.StreamFrame) ([]byte, error) {
	b, err := json.Marshal(jsonFrame(f))
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	return b, nil
}

// jsonFrame is nomad.StreamFrame with the names and omissions of its JSON.
type jsonFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// output is where a stream goes.
type output struct {
	frame Framer
	sink  Sink
}

func (o output) send(f nomad.StreamFrame) error {
	b, err := o.frame(f)
	if err != nil || len(b) == 0 {
		return err
	}
	return o.sink(b)
}

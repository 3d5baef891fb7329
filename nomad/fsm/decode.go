package fsm

import (
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// CommandName returns the name of the commands of a type.
func CommandName(number message.CommandType) string {
	if cmd, known := commandTable()[number]; known {
		return cmd.name
	}
	return fmt.Sprintf("Unknown(%d)", number)
}

// DecodeCommand returns the name of a log entry's command and its body. The body is a value of
// package nomad, or of generic types if its type is unknown.
func DecodeCommand(data []byte) (name string, body any, err error) {
	if len(data) == 0 {
		return "", nil, errors.New("the entry is empty")
	}
	number := message.CommandType(data[0]) &^ message.IgnoreUnknownTypeFlag
	var v any = new(any)
	cmd := commandTable()[number]
	name = CommandName(number)
	if cmd.body != nil {
		v = cmd.body()
	}
	if err := codec.Decode(data[1:], v); err != nil {
		return name, nil, fmt.Errorf("decode command %s: %w", name, err)
	}
	if generic, ok := v.(*any); ok {
		return name, *generic, nil
	}
	return name, v, nil
}

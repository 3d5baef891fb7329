package surface_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// bombSize is the number of bytes, and of empty objects, in an attack.
const bombSize = 1_000_000

// allocatedMost limits the allocations of all refused calls of a case together. Reading a body
// of 1 MB takes about 3 MB, because its buffer grows in steps.
const allocatedMost = 32 << 20

// wireString returns a msgpack string of at most 65535 bytes.
func wireString(s string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xda}, uint16(len(s))), s...)
}

// emptyObjects returns a msgpack list of n empty maps.
func emptyObjects(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)), bytes.Repeat([]byte{0x80}, n)...)
}

// bombs are bodies without the token. The last value of each map is the list.
var bombs = map[string]func() []byte{
	"Job.Register":     jobBomb,
	"Job.Plan":         jobBomb,
	"Job.Validate":     jobBomb,
	"Node.UpdateAlloc": func() []byte { return append(wireString("Alloc"), emptyObjects(bombSize)...) },
	"Node.Register":    func() []byte { return append(wireString("Nodes"), emptyObjects(bombSize)...) },
	"Status.Ping":      func() []byte { return append(wireString("Jobs"), emptyObjects(bombSize)...) },
	"Job.Statuses":     func() []byte { return append(wireString("Jobs"), emptyObjects(bombSize)...) },
}

// jobBomb returns a job of one group with empty tasks.
func jobBomb() []byte {
	b := append(wireString("Job"), 0x82)
	b = append(append(b, wireString("ID")...), wireString("bomb")...)
	b = append(append(b, wireString("TaskGroups")...), 0x91, 0x82)
	b = append(append(b, wireString("Name")...), wireString("g")...)
	return append(append(b, wireString("Tasks")...), emptyObjects(bombSize)...)
}

// sendRaw makes one call with a raw body over a new connection and returns the error of the
// answer.
func sendRaw(t *testing.T, addr, method, token string, bomb []byte) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	wire := append([]byte{0x01, 0x82}, wireString("ServiceMethod")...)
	wire = append(append(wire, wireString(method)...), wireString("Seq")...)
	wire = append(wire, 0x01, 0x84)
	for _, pair := range [][2]string{{"Region", "global"}, {"Namespace", "default"}, {"AuthToken", token}} {
		wire = append(append(wire, wireString(pair[0])...), wireString(pair[1])...)
	}
	if _, err := conn.Write(append(wire, bomb...)); err != nil {
		return "", err
	}
	var head struct{ Error string }
	err = msgpack.NewDecoder(conn, codec.MsgpackHandle).Decode(&head)
	return head.Error, err
}

// attack sends the bomb over four connections concurrently. It returns the answers and the
// memory that the process allocated.
func attack(t *testing.T, addr, method, token string) (answers []string, allocated uint64) {
	t.Helper()
	bomb := bombs[method]()
	answers = make([]string, 4)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			text, err := sendRaw(t, addr, method, token, bomb)
			if err != nil {
				t.Errorf("%s: %v", method, err)
			}
			answers[i] = text
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	return answers, after.TotalAlloc - before.TotalAlloc
}

// A small request that would be large in memory is refused before it is decoded, whoever sends
// it. Four concurrent ones cost the server about as much as their bytes.
func TestMemory_CompressedRequests(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	reader := g.TokenWith(`node { policy = "read" }`)
	for _, c := range []struct {
		name, method, token, want string
	}{
		{"anonymous", "Job.Register", "", "Permission denied"},
		{"anonymous", "Job.Plan", "", "Permission denied"},
		{"anonymous", "Job.Validate", "", "Permission denied"},
		{"anonymous", "Job.Statuses", "", "Permission denied"},
		{"anonymous", "Node.UpdateAlloc", "", "Permission denied"},
		{"without rights", "Job.Register", reader, "Permission denied"},
		{"without rights", "Job.Plan", reader, "Permission denied"},
		{"without rights", "Job.Validate", reader, "Permission denied"},
		{"without rights", "Node.UpdateAlloc", reader, "Permission denied"},
		{"unknown token", "Job.Register", nomad.NewID(), "Permission denied"},
		{"unknown token", "Status.Ping", nomad.NewID(), "too large"},
		{"anonymous", "Node.Register", "", "too large"},
		{"management", "Job.Register", g.Root, "too large"},
		{"a node", "Node.UpdateAlloc", n.Node.SecretID, "too large"},
	} {
		answers, allocated := attack(t, g.Server.RPCAddr(), c.method, c.token)
		for _, text := range answers {
			if !strings.Contains(text, c.want) {
				t.Errorf("%s, %s: answer %q, want %q", c.method, c.name, text, c.want)
			}
		}
		if allocated > allocatedMost {
			t.Errorf("%s, %s: %d MB allocated for four requests of 1 MB", c.method, c.name, allocated>>20)
		}
	}
	// Usual large requests are accepted: a job of several hundred tasks over RPC.
	job := servertest.BatchJob("large", 1)
	task := job.TaskGroups[0].Tasks[0]
	job.TaskGroups[0].Tasks = nil
	for range 500 {
		next := codec.Copy(task)
		next.Name = "t" + nomad.NewID()
		next.Env = map[string]string{"A": strings.Repeat("x", 200)}
		job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, next)
	}
	req := &message.JobRegisterRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global", Namespace: "default", AuthToken: g.Root}}
	if err := n.Pool.Call(servertest.Context(t), g.Server.RPCAddr(), "Job.Register", req, nil); err != nil {
		t.Errorf("a job of 500 tasks: %v", err)
	}
}

// A job with more groups and tasks than the HTTP API accepts is refused over RPC too.
func TestMemory_JobsOfTooManyParts(t *testing.T) {
	g := servertest.StartACL(t, nil)
	n := servertest.Join(t, g.Server.RPCAddr())
	job := servertest.BatchJob("parts", 1)
	job.TaskGroups[0].Tasks = nil
	for range 5_000 {
		job.TaskGroups[0].Tasks = append(job.TaskGroups[0].Tasks, &nomad.Task{})
	}
	for method, req := range map[string]any{
		"Job.Register": &message.JobRegisterRequest{Job: job,
			WriteRequest: message.WriteRequest{Region: "global", Namespace: "default", AuthToken: g.Root}},
		"Job.Plan": &message.JobPlanRequest{Job: job,
			WriteRequest: message.WriteRequest{Region: "global", Namespace: "default", AuthToken: g.Root}},
		"Job.Validate": &message.JobValidateRequest{Job: job,
			WriteRequest: message.WriteRequest{Region: "global", Namespace: "default", AuthToken: g.Root}},
	} {
		err := n.Pool.Call(servertest.Context(t), g.Server.RPCAddr(), method, req, nil)
		if err == nil || !strings.Contains(err.Error(), "5001 groups and tasks") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

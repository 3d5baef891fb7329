package attack

// Targets describes the environment of the probe. The test writes it as JSON, and the probe reads
// it. Process IDs are those of the host. Unless noted otherwise, the modes of all files grant
// access to everyone, so that modes hide nothing.
type Targets struct {
	Root       int // a process of root outside
	User       int // a process of the user of the named situations
	UserID     int // the UID of that user
	Agent      int
	Supervisor int
	Neighbour  int // a task of another allocation
	Init       int // used as process 1; 0 is process 1, which a probe without a PID namespace leaves alone

	Dir     string // not granted, with the files of layOut
	HostTmp string // a file in the host's /tmp
	Setuid  string // this program, setuid root, granted
	DataDir string // of the agent

	NeighbourDir string   // directory of the neighbour's allocation
	NeighbourGrp string   // a control group directory of the neighbour
	OwnGroups    []string // the probe's own, with ALLOC for the ID of its allocation

	Abstract, AbstractDgram string // abstract sockets
	Socket, SocketDgram     string // sockets in Dir
	SupervisorSocket        string
	RunSocket               string // a socket in /run that is open to all
	SessionSocket           string // in /run/user of the user, accessible to all by its own mode

	Shm, Sem, Msg int    // System V IPC, all with mode 0666
	Queue         string // a POSIX message queue
	DevShm        string // a file in /dev/shm

	TCP, UDP int    // listening ports on 127.0.0.1
	HTTP     int    // the agent's API
	Canary   string // in the agent's environment, in secrets, in the victims' memory
}

// Names below Targets.Dir. Each operation with a side effect has its own.
const (
	plainFile  = "plain"      // 0666
	ownedFile  = "owned"      // 0644, of the named user
	ownedDir   = "owned-dir"  // 0755, of the named user
	program    = "program"    // 0755, this program
	linkFile   = "link"       // symlink to plain
	openDir    = "open"       // 0777
	removeFile = "open/gone"  // 0666
	renameFile = "open/moved" // 0666
	truncFile  = "open/long"  // 0666, not empty
	hardFile   = "open/hard"  // 0666
)

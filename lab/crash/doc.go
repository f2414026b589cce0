// Package crash disturbs programs that change files. A Recorder records what a program does to the files below a
// folder, and lists the states that a power failure may leave at each moment. Faults makes single calls fail. Tests
// call Disturb, which tries both for as long as the flags of the test say.
//
// The model is that of ALICE (Pillai et al., All File Systems Are Not Created Equal, OSDI 2014). Data written to a file
// is durable after its Sync. Before that, a failure may leave all of it, nothing, zeros in its place, its first half,
// or all but a block of zeros, in all files alike or in one file only. A created, changed or removed name is durable
// after SyncDir of its folder. Before that, a failure may leave the changes up to a point, as ext4 and XFS do, or, as
// POSIX allows, all but one or only one.
package crash

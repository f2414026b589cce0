module vsetrain

go 1.26

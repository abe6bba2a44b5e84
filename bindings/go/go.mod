module pantile

go 1.19
